//! Names of services that people offer beside the known four, and of instances.

use std::fmt;
use std::str::FromStr;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::open::open;

/// The longest name of a service, `OWNER/NAME`, bytes.
pub const MAX_SERVICE_NAME_BYTES: usize = 48;

/// The longest name of an instance, bytes.
const MAX_INSTANCE_BYTES: usize = 15;

/// The longest name with an instance, bytes.
const MAX_BYTES: usize = MAX_SERVICE_NAME_BYTES + 1 + MAX_INSTANCE_BYTES;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode)]
#[cbor(index_only)]
pub enum Form {
    /// Not known yet: a lookup finds offers of every form. No offer has it.
    #[n(0)]
    #[default]
    Any,
    /// Datagrams as they come, for a time.
    #[n(1)]
    Stream,
    #[n(2)]
    Object,
    /// An object that answers what a request carries.
    #[n(3)]
    Call,
}

open!(Form, [Any, Stream, Object, Call]);

impl Form {
    /// The form's name in texts; none of the unknown one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Stream => "stream",
            Self::Object => "object",
            Self::Call => "call",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The services that every node knows, of which names are instances, with their forms.
const KNOWN: [(&str, Form); 4] =
    [("video", Form::Stream), ("track", Form::Stream), ("image", Form::Object), ("sensor", Form::Object)];

/// The name of a service of one's own (`acme/lidar`), of an instance of it (`acme/lidar#mast`), or of an instance of a
/// known service (`video#bow`). Copies are plain bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName {
    bytes: [u8; MAX_BYTES],
    length: u8,
    base_length: u8,
    form: Form,
}

/// A text is no name of a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceNameError {
    #[error(
        "{0:?} is no service: expected OWNER/NAME of at most {MAX_SERVICE_NAME_BYTES} bytes, each of lower-case letters, digits, '.', '_' and '-' after a letter or digit"
    )]
    Name(String),
    #[error(
        "{0:?} is no instance: expected at most {MAX_INSTANCE_BYTES} lower-case letters, digits, '.', '_' and '-' after '#'"
    )]
    Instance(String),
    #[error("{0:?} is no form of a service: expected stream, object or call")]
    Form(String),
}

fn is_word(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().enumerate().all(|(place, byte)| plain(byte) || place > 0 && matches!(byte, b'.' | b'_' | b'-'))
        && !text.is_empty()
}

impl ServiceName {
    fn new(base: &str, instance: Option<&str>, form: Form) -> Result<Self, ServiceNameError> {
        let is_own = base.split_once('/').is_some_and(|(owner, name)| is_word(owner) && is_word(name));
        let known = KNOWN.iter().find(|(name, _)| *name == base).map(|(_, form)| *form);
        if base.len() > MAX_SERVICE_NAME_BYTES || !(is_own || known.is_some() && instance.is_some()) {
            return Err(ServiceNameError::Name(base.to_owned()));
        }
        if let Some(instance) = instance.filter(|name| !is_word(name) || name.len() > MAX_INSTANCE_BYTES) {
            return Err(ServiceNameError::Instance(instance.to_owned()));
        }
        let mut bytes = [0; MAX_BYTES];
        bytes[..base.len()].copy_from_slice(base.as_bytes());
        let mut length = base.len();
        if let Some(instance) = instance {
            bytes[length] = b'#';
            bytes[length + 1..=length + instance.len()].copy_from_slice(instance.as_bytes());
            length += 1 + instance.len();
        }
        let form = known.unwrap_or(form);
        Ok(Self { bytes, length: length as u8, base_length: base.len() as u8, form })
    }

    pub fn as_str(&self) -> &str {
        // The bytes come from a text.
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }

    pub fn instance(&self) -> Option<&str> {
        self.has_instance().then(|| &self.as_str()[usize::from(self.base_length) + 1..])
    }

    pub(super) const fn has_instance(&self) -> bool {
        self.length > self.base_length
    }

    #[inline]
    pub(super) fn satisfies(&self, requested: &Self) -> bool {
        let is_form = requested.form == Form::Any || self.form == requested.form;
        let is_name = if requested.has_instance() {
            self.bytes[..usize::from(self.length)] == requested.bytes[..usize::from(requested.length)]
        } else {
            self.base_bytes() == requested.base_bytes()
        };
        is_form && is_name
    }

    /// The form; that of the service where it is an instance of a known one.
    pub const fn form(self) -> Form {
        self.form
    }

    pub(super) const fn with_form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    pub(super) const fn base_bytes(&self) -> &[u8] {
        self.bytes.split_at(self.base_length as usize).0
    }

    pub(super) const fn base(mut self) -> Self {
        while self.length > self.base_length {
            self.length -= 1;
            self.bytes[self.length as usize] = 0;
        }
        self
    }

    /// The text that [`FromStr`] reads back, with the form of an own service, if that is known.
    pub fn full_text(&self) -> String {
        let is_own = self.as_str().contains('/') && self.form != Form::Any;
        if is_own { format!("{}:{}", self.as_str(), self.form) } else { self.as_str().to_owned() }
    }
}

impl FromStr for ServiceName {
    type Err = ServiceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (text, form) = match text.split_once(':') {
            None => (text, Form::Any),
            Some((text, form)) => {
                let forms = [Form::Stream, Form::Object, Form::Call];
                let named = forms.into_iter().find(|one| one.name() == form && text.contains('/'));
                (text, named.ok_or_else(|| ServiceNameError::Form(form.to_owned()))?)
            }
        };
        match text.split_once('#') {
            Some((base, instance)) => Self::new(base, Some(instance), form),
            None => Self::new(text, None, form),
        }
    }
}

impl fmt::Debug for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full_text())
    }
}

impl<C> Encode<C> for ServiceName {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.array(2)?.encode_with(self.form, ctx)?.str(self.as_str())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for ServiceName {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, DecodeError> {
        if d.array()? != Some(2) {
            return Err(DecodeError::message("a service is its form and its name"));
        }
        let form = Form::decode(d, ctx)?;
        let text = d.str()?;
        let (base, instance) = text.split_once('#').map_or((text, None), |(base, instance)| (base, Some(instance)));
        Self::new(base, instance, form).map_err(|_| DecodeError::message("no name of a service"))
    }
}
