//! Words that are one text in JSON, or texts by key, and their JSON schemas.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::{DeliveryId, NodeId};
use crate::{Cell, DeliveryClass, Labels, Metadata, NodeSelector, Profile, Role, Scheme, Scope, Service, text};

/// `$word` is the text that it prints.
macro_rules! text {
    ($($word:ty),+) => {
        $(impl Serialize for $word {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                text::serialize(self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $word {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text::deserialize(deserializer)
            }
        })+
    };
}

/// `$word` is a text of this pattern.
macro_rules! pattern {
    ($word:ty, $name:literal, $pattern:literal, $example:literal) => {
        impl JsonSchema for $word {
            fn schema_name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "examples": [$example] })
            }
        }
    };
}

macro_rules! names {
    ($word:ty, $name:literal) => {
        impl JsonSchema for $word {
            fn schema_name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": <$word>::ALL.map(|word| word.name()) })
            }
        }
    };
}

macro_rules! texts {
    ($word:ty, $name:literal, $keys:literal, $values:literal) => {
        impl JsonSchema for $word {
            fn schema_name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "object",
                    "propertyNames": { "pattern": $keys },
                    "additionalProperties": { "type": "string", "pattern": $values },
                })
            }
        }
    };
}

text!(Cell, NodeId, NodeSelector, DeliveryId, Scope, Profile, DeliveryClass, Role, Scheme);

pattern!(Cell, "Cell", "^(0|-?[1-9][0-9]{0,5}|-?1000000),(0|-?[1-9][0-9]{0,5}|-?1000000)$", "27,92");
pattern!(NodeId, "NodeId", "^[0-9a-f]{32}$", "6f0c1d2e3a4b5c6d7e8f90a1b2c3d4e5");
pattern!(NodeSelector, "NodeSelector", "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "uav7");
pattern!(DeliveryId, "DeliveryId", "^[0-9a-f]{16}$", "0123456789abcdef");
pattern!(
    Service,
    "Service",
    "^((video|track|image|sensor)(#[a-z0-9][a-z0-9._-]{0,14})?|[a-z0-9][a-z0-9._-]{0,45}/[a-z0-9][a-z0-9._-]{0,45}(#[a-z0-9][a-z0-9._-]{0,14})?(:(stream|object|call))?)$",
    "acme/lidar:stream"
);
names!(Scope, "Scope");
names!(Profile, "Profile");
names!(DeliveryClass, "DeliveryClass");
names!(Role, "Role");
names!(Scheme, "Scheme");
texts!(Metadata, "Metadata", "^[A-Za-z0-9._-]{1,255}$", "^[^\\u0000-\\u001f\\u007f-\\u009f]*$");
texts!(Labels, "Labels", "^.*$", "^.*$");
