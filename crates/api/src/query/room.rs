use super::{Params, QueryError, QueryPairs, escaped, push_names};

/// The longest name of a room, bytes.
pub const MAX_ROOM_NAME_BYTES: usize = 200;

/// The query of `GET /v1/room`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomQuery {
    /// `name=NAME`, 1 to 200 bytes.
    pub name: String,
    /// `names=true`: hubs are asked for the names of the members, which costs a lookup for each.
    pub names: bool,
}

impl RoomQuery {
    /// # Errors
    /// One sentence that says which parameter is wrong and what was expected.
    pub fn from_pairs(pairs: &QueryPairs) -> Result<Self, QueryError> {
        let params = Params::new(pairs, &["name", "names"])?;
        let (name, names): (String, _) = (params.required("name")?, params.parsed("names")?.unwrap_or(false));
        if name.is_empty() || name.len() > MAX_ROOM_NAME_BYTES {
            let bytes = name.len();
            return Err(QueryError(format!("name has {bytes} bytes: expected 1 to {MAX_ROOM_NAME_BYTES}")));
        }
        Ok(Self { name, names })
    }

    /// Writes the query without the question mark.
    pub fn to_text(&self) -> String {
        let mut text = format!("name={}", escaped(&self.name));
        push_names(&mut text, self.names);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Result<RoomQuery, QueryError> {
        RoomQuery::from_pairs(&QueryPairs(vec![("name".to_owned(), name.to_owned())]))
    }

    #[test]
    fn room_name_length_is_limited() {
        assert_eq!(named("ops & air").map(|query| query.to_text()), Ok("name=ops%20%26%20air".to_owned()));
        assert!(named(&"x".repeat(MAX_ROOM_NAME_BYTES)).is_ok());
        for (name, part) in [(String::new(), "has 0 bytes"), ("x".repeat(MAX_ROOM_NAME_BYTES + 1), "has 201 bytes")] {
            assert!(named(&name).unwrap_err().to_string().contains(part));
        }
        assert!(RoomQuery::from_pairs(&QueryPairs(Vec::new())).unwrap_err().to_string().contains("is missing"));
    }
}
