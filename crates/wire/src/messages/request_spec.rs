//! A request as hubs pass it on: with the bytes that it came in.

use std::ops::Deref;
use std::sync::Arc;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use smallvec::SmallVec;

use super::codec;
use super::service_request::{MAX_SPEC_BYTES, ServiceRequest, USUAL_SPEC_BYTES};

/// A [`ServiceRequest`] and its encoding. A hub passes on the bytes that it received, so that an
/// option of a later version reaches a provider that knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSpec(Arc<EncodedRequest>);

#[derive(Debug, PartialEq, Eq)]
struct EncodedRequest {
    request: ServiceRequest,
    /// Most requests lie in the allocation of the `Arc`.
    encoded: SmallVec<[u8; 64]>,
}

impl Deref for RequestSpec {
    type Target = ServiceRequest;

    fn deref(&self) -> &ServiceRequest {
        &self.0.request
    }
}

impl From<ServiceRequest> for RequestSpec {
    fn from(request: ServiceRequest) -> Self {
        let encoded = SmallVec::from_slice(&codec::to_bytes(&request));
        Self(Arc::new(EncodedRequest { request, encoded }))
    }
}

impl RequestSpec {
    /// True if it takes more than a request without parameters and a body.
    pub fn is_long(&self) -> bool {
        self.0.encoded.len() > USUAL_SPEC_BYTES
    }
}

impl<C> Encode<C> for RequestSpec {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.writer_mut().write_all(&self.0.encoded).map_err(EncodeError::write)
    }
}

impl<'b, C> Decode<'b, C> for RequestSpec {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, DecodeError> {
        let start = d.position();
        let request = ServiceRequest::decode(d, ctx)?;
        let encoded = &d.input()[start..d.position()];
        if encoded.len() > MAX_SPEC_BYTES {
            return Err(DecodeError::message("too long a request"));
        }
        Ok(Self(Arc::new(EncodedRequest { request, encoded: SmallVec::from_slice(encoded) })))
    }
}

#[cfg(test)]
mod tests {
    use super::super::service_request::tests::full;
    use super::*;
    use crate::grid::Area;
    use crate::messages::{CallBody, MAX_BODY_BYTES, MAX_PARAMS_BYTES, ReflectionPolicy};
    use crate::service::Service;

    #[test]
    fn local_fields_stay_at_the_node() {
        let spec = RequestSpec::from(full());
        let read: RequestSpec = minicbor::decode(&codec::to_bytes(&spec)).unwrap();
        assert_eq!(*read, ServiceRequest { timeout: None, patience: None, ..full() });
        assert_eq!(read.0.encoded, spec.0.encoded);
    }

    #[test]
    fn unknown_options_are_kept() {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        encoder.map(3).unwrap().u8(0).unwrap().encode(Service::Track).unwrap();
        encoder.u8(1).unwrap().encode(Area::Anywhere).unwrap();
        encoder.u8(200).unwrap().array(2).unwrap().str("later").unwrap().u8(1).unwrap();
        let spec: RequestSpec = minicbor::decode(&bytes).unwrap();
        assert_eq!(*spec, ServiceRequest::new(Service::Track, Area::Anywhere));
        assert_eq!(codec::to_bytes(&spec), bytes);
    }

    #[test]
    fn long_requests_are_refused() {
        for (filler, is_read) in [(MAX_SPEC_BYTES - 11, true), (MAX_SPEC_BYTES - 10, false)] {
            let mut bytes = Vec::new();
            let mut encoder = Encoder::new(&mut bytes);
            encoder.map(3).unwrap().u8(0).unwrap().encode(Service::Track).unwrap();
            encoder.u8(1).unwrap().encode(Area::Anywhere).unwrap();
            encoder.u8(200).unwrap().bytes(&vec![0; filler]).unwrap();
            assert_eq!(minicbor::decode::<RequestSpec>(&bytes).is_ok(), is_read, "{} bytes", bytes.len());
        }
    }

    #[test]
    fn greatest_params_and_body_fit() {
        let service = format!("{}/{}#{}:call", "a".repeat(20), "b".repeat(27), "c".repeat(15)).parse().unwrap();
        let request = ServiceRequest {
            reflect: ReflectionPolicy::Never,
            filter: format!("key={}", "v".repeat(200)).parse().unwrap(),
            params: "p".repeat(MAX_PARAMS_BYTES),
            body: Some(CallBody { digest: [7; 32], length: MAX_BODY_BYTES as u32 }),
            service,
            min_kbps: None,
            ..full()
        };
        let spec = RequestSpec::from(request);
        assert!(spec.is_long() && spec.0.encoded.len() <= MAX_SPEC_BYTES, "{}", spec.0.encoded.len());
        let read: RequestSpec = minicbor::decode(&codec::to_bytes(&spec)).unwrap();
        assert_eq!((&read.params, read.body), (&spec.params, spec.body));
    }
}
