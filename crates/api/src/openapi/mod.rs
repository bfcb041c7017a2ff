//! The description of the local API by OpenAPI 3.1, made of the types that daemons send and read.

mod endpoint;
mod endpoints;

use roost_wire::Role;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Describes the endpoints of a daemon of this role.
pub fn document(role: Role) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator =
        settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator();
    let mut paths = Map::new();
    for endpoint in endpoints::all().iter().filter(|endpoint| endpoint.on.has(role)) {
        let described = endpoint.describe(&mut generator);
        let path = paths.entry(endpoint.path).or_insert_with(|| Value::Object(Map::new()));
        if let Some(methods) = path.as_object_mut() {
            methods.insert(endpoint.method.to_owned(), described);
        }
    }
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": format!("The local API of a Roost {}", role.name()),
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://roost", "description": "HTTP/1.1 on the daemon's Unix socket" }],
        "paths": paths,
        "components": { "schemas": generator.take_definitions(true) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|field| references(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_has_its_schema() {
        for role in Role::ALL {
            let document = document(role);
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(found.len() > 20, "{role}: {} references", found.len());
            for reference in found {
                let target = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(target).is_some(), "{role}: {reference} leads nowhere");
            }
        }
    }

    #[test]
    fn request_names_what_it_must_have() {
        let document = document(Role::Node);
        let request = &document["components"]["schemas"]["ServiceRequest"];
        assert_eq!(request["required"], json!(["service", "area"]));
        assert_eq!(request["additionalProperties"], json!(false));
        assert_eq!(request["properties"]["duration_ms"]["maximum"], json!(86_400_000));
        assert!(request["properties"].get("where").is_some() && request["properties"].get("pushed").is_none());
    }

    #[test]
    fn roles_have_their_endpoints() {
        let has = |role, path: &str| document(role)["paths"].get(path).is_some();
        assert!(has(Role::Node, "/v1/offer") && !has(Role::SuperNode, "/v1/offer"));
        assert!(has(Role::Server, "/v1/index") && !has(Role::Node, "/v1/index"));
    }
}
