//! An endpoint as the description of the API has it.

use roost_wire::Role;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::error::ErrorBody;
use crate::{FRAMES, JSON_LINES};

/// An endpoint with its parameters, the body that it takes and its answer.
pub(super) struct Endpoint {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) on: On,
    summary: &'static str,
    parameters: Vec<Parameter>,
    body: Option<Body>,
    answer: Success,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    All,
    Nodes,
    Hubs,
}

impl On {
    pub(super) const fn has(self, role: Role) -> bool {
        match self {
            Self::All => true,
            Self::Nodes => matches!(role, Role::Node),
            Self::Hubs => !matches!(role, Role::Node),
        }
    }
}

/// A schema, which a generator makes when it is asked for the description.
type SchemaMaker = fn(&mut SchemaGenerator) -> Value;

pub(super) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

pub(super) struct Parameter {
    name: &'static str,
    is_required: bool,
    schema: SchemaMaker,
    description: &'static str,
}

enum Body {
    Json(SchemaMaker),
    GeoJson,
    Bytes(&'static str),
}

enum Success {
    Nothing,
    Json(SchemaMaker),
    /// An object a line; the answer may have no end.
    Lines(SchemaMaker),
    Text,
    /// The state in a word, with 503 unless the daemon is ready.
    State,
    Bytes,
    /// The payload, or frames of events and payload.
    Payload(SchemaMaker),
}

impl Parameter {
    pub(super) const fn optional(name: &'static str, schema: SchemaMaker, description: &'static str) -> Self {
        Self { name, is_required: false, schema, description }
    }

    pub(super) const fn required(name: &'static str, schema: SchemaMaker, description: &'static str) -> Self {
        Self { name, is_required: true, schema, description }
    }

    fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        json!({
            "name": self.name,
            "in": "query",
            "required": self.is_required,
            "description": self.description,
            "schema": (self.schema)(generator),
        })
    }
}

impl Endpoint {
    const fn new(method: &'static str, path: &'static str, on: On, summary: &'static str) -> Self {
        Self { method, path, on, summary, parameters: Vec::new(), body: None, answer: Success::Nothing }
    }

    pub(super) const fn get(path: &'static str, on: On, summary: &'static str) -> Self {
        Self::new("get", path, on, summary)
    }

    pub(super) const fn post(path: &'static str, on: On, summary: &'static str) -> Self {
        Self::new("post", path, on, summary)
    }

    pub(super) const fn put(path: &'static str, on: On, summary: &'static str) -> Self {
        Self::new("put", path, on, summary)
    }

    pub(super) fn with(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        Self { body: Some(Body::Json(schema_of::<T>)), ..self }
    }

    pub(super) fn takes_bytes(self, description: &'static str) -> Self {
        Self { body: Some(Body::Bytes(description)), ..self }
    }

    pub(super) fn takes_geojson(self) -> Self {
        Self { body: Some(Body::GeoJson), ..self }
    }

    pub(super) fn answers<T: JsonSchema>(self) -> Self {
        Self { answer: Success::Json(schema_of::<T>), ..self }
    }

    pub(super) fn answers_lines<T: JsonSchema>(self) -> Self {
        Self { answer: Success::Lines(schema_of::<T>), ..self }
    }

    pub(super) fn answers_payload<T: JsonSchema>(self) -> Self {
        Self { answer: Success::Payload(schema_of::<T>), ..self }
    }

    pub(super) fn answers_bytes(self) -> Self {
        Self { answer: Success::Bytes, ..self }
    }

    pub(super) fn answers_state(self) -> Self {
        Self { answer: Success::State, ..self }
    }

    pub(super) fn answers_text(self) -> Self {
        Self { answer: Success::Text, ..self }
    }

    pub(super) fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        let mut operation = Map::new();
        operation.insert("operationId".to_owned(), json!(self.id()));
        operation.insert("summary".to_owned(), json!(self.summary));
        let parameters: Vec<Value> = self.parameters.iter().map(|each| each.describe(generator)).collect();
        if !parameters.is_empty() {
            operation.insert("parameters".to_owned(), json!(parameters));
        }
        if let Some(body) = &self.body {
            operation.insert("requestBody".to_owned(), body.describe(generator));
        }
        let failure = json!({
            "description": "One sentence for people, with a code for programs.",
            "content": { "application/json": { "schema": schema_of::<ErrorBody>(generator) } },
        });
        let success = self.answer.describe(generator);
        let mut responses = json!({ "200": success, "4XX": failure, "5XX": failure });
        if matches!(self.answer, Success::State) {
            responses["503"] = success;
        }
        operation.insert("responses".to_owned(), responses);
        Value::Object(operation)
    }

    fn id(&self) -> String {
        let path = self.path.trim_start_matches("/v1/").trim_start_matches('/');
        format!("{}_{}", path.replace(['/', '.'], "_"), self.method)
    }
}

impl Body {
    fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        match self {
            Self::Json(schema) => {
                json!({ "required": true, "content": { "application/json": { "schema": schema(generator) } } })
            }
            Self::GeoJson => json!({
                "description": "Polygons, instead of an area or beside `near`.",
                "content": { "application/geo+json": { "schema": { "type": "object" } } },
            }),
            Self::Bytes(description) => json!({
                "required": true,
                "description": description,
                "content": { "application/octet-stream": {} },
            }),
        }
    }
}

impl Success {
    fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        match self {
            Self::Nothing => json!({ "description": "Done. The body is empty." }),
            Self::Json(schema) => json!({
                "description": "The answer.",
                "content": { "application/json": { "schema": schema(generator) } },
            }),
            // A schema of this media type is that of one line.
            Self::Lines(schema) => json!({
                "description": "A JSON object of this schema a line.",
                "content": { JSON_LINES: { "schema": schema(generator) } },
            }),
            Self::Text | Self::State => json!({ "description": "Plain text.", "content": { "text/plain": {} } }),
            Self::Bytes => json!({ "description": "Bytes.", "content": { "application/octet-stream": {} } }),
            Self::Payload(schema) => json!({
                "description": "The payload with its media type; or, if it is accepted, frames of payload and of \
                                events, each of this schema.",
                "content": { FRAMES: { "schema": schema(generator) }, "*/*": {} },
            }),
        }
    }
}
