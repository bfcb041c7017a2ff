//! Answers of the local API and the parameters of its requests.

use axum::Router;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::SCHEMA;
use crate::error::{Code, Error, ErrorBody};
use crate::query::{QueryError, QueryPairs};

/// Polygons are the largest part of a body: 256 KiB of GeoJSON, and more with escaped quotation marks.
const MAX_JSON_BYTES: usize = 512 * 1024;

const MAX_TEXT_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub struct ApiError(pub Error);

impl ApiError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Error::new(code, message))
    }

    pub fn body(self) -> ErrorBody {
        ErrorBody { schema: SCHEMA, error: self.0 }
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        Self::new(Code::Usage, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, json_response(&self.body())).into_response()
    }
}

pub fn json_response<T: Serialize>(value: &T) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json_line(value)).into_response()
}

/// Encodes a value as JSON and a line feed, so that it ends well on a terminal.
pub fn json_line<T: Serialize>(value: &T) -> String {
    // The types of this API hold texts and numbers, which always have a JSON form.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

impl<S: Send + Sync> FromRequestParts<S> for QueryPairs {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::<Vec<(String, String)>>::from_request_parts(parts, state).await {
            Ok(Query(pairs)) => Ok(Self(pairs)),
            Err(rejection) => Err(ApiError::new(Code::Usage, rejection.body_text())),
        }
    }
}

/// A JSON body, whatever media type its sender names. A query beside it is refused, since nothing would read it.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        if let Some(query) = request.uri().query().filter(|query| !query.is_empty()) {
            let message = format!("this endpoint takes no query: put {query:?} into the JSON body");
            return Err(ApiError::new(Code::Usage, message));
        }
        let wrong =
            |why: String| ApiError::new(Code::Usage, format!("the body is no JSON object of this endpoint: {why}"));
        let body = axum::body::to_bytes(request.into_body(), MAX_JSON_BYTES).await;
        let body = body.map_err(|_| {
            let limit = MAX_TEXT_BYTES / 1024;
            wrong(format!("it broke off, or has more than {limit} KiB, the limit of polygons: simplify them"))
        })?;
        serde_json::from_slice(&body).map(Self).map_err(|error| wrong(error.to_string()))
    }
}

/// A text of at most 256 KiB as body; an empty one if there is none.
#[derive(Debug)]
pub struct TextBody(pub String);

impl<S: Send + Sync> FromRequest<S> for TextBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let wrong = |why: String| ApiError::new(Code::Usage, format!("the body is no text of this endpoint: {why}"));
        let body = axum::body::to_bytes(request.into_body(), MAX_TEXT_BYTES).await;
        let body = body.map_err(|_| {
            let limit = MAX_TEXT_BYTES / 1024;
            wrong(format!("it broke off, or has more than {limit} KiB, the limit of polygons: simplify them"))
        })?;
        String::from_utf8(body.into()).map(Self).map_err(|error| wrong(error.to_string()))
    }
}

/// Answers unknown endpoints and methods with an [`ApiError`].
pub fn with_fallback(router: Router) -> Router {
    router.fallback(no_such_endpoint).method_not_allowed_fallback(wrong_method)
}

/// The router adds the right methods under `Allow`.
async fn wrong_method(request: Request) -> (StatusCode, Response) {
    let message = format!("{} is no method of {}: Allow names those that are", request.method(), request.uri().path());
    (StatusCode::METHOD_NOT_ALLOWED, ApiError::new(Code::NoSuchEndpoint, message).into_response())
}

async fn no_such_endpoint(request: Request) -> ApiError {
    let message = format!("this daemon has no {} {}", request.method(), request.uri().path());
    ApiError::new(Code::NoSuchEndpoint, message)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    async fn read(uri: &str) -> Result<Vec<u8>, Error> {
        let request = Request::builder().uri(uri).body(Body::from("[1, 2]")).unwrap();
        let read = JsonBody::<Vec<u8>>::from_request(request, &()).await;
        read.map(|JsonBody(numbers)| numbers).map_err(|ApiError(error)| error)
    }

    #[tokio::test]
    async fn query_beside_body_is_refused() {
        assert_eq!(read("/v1/request").await, Ok(vec![1, 2]));
        assert_eq!(read("/v1/request?").await, Ok(vec![1, 2]));
        let error = read("/v1/request?service=video").await.unwrap_err();
        assert_eq!(error.code, Code::Usage);
        assert!(error.message.contains("takes no query: put \"service=video\""), "{}", error.message);
    }
}
