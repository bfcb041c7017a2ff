use proptest::prelude::*;

use super::*;

fn request(method: &str, path: &str, headers: &str) -> Request<Vec<u8>> {
    let text = format!("{method} rtsp://127.0.0.1:8554{path} RTSP/1.0\r\nCSeq: 3\r\n{headers}\r\n");
    match rtsp_types::Message::parse(text.as_bytes()).unwrap().0 {
        rtsp_types::Message::Request(request) => request,
        other => panic!("{other:?}"),
    }
}

fn conversation(token: Option<&str>) -> Conversation {
    Conversation::new("5e55".to_owned(), token.map(|text| Token::parse(text).unwrap()))
}

fn text(reply: &Response<Vec<u8>>) -> String {
    let mut bytes = Vec::new();
    reply.write(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn status(action: &Action) -> u16 {
    match action {
        Action::Reply(reply) | Action::Play(reply) | Action::Close(reply) => reply.status().into(),
        Action::Describe(_) | Action::SetUp(..) => 0,
    }
}

#[test]
fn stream_comes_between_the_messages() {
    let mut player = conversation(None);
    let describe = request("DESCRIBE", "/video/27,92", "Accept: application/sdp\r\n");
    let Action::Describe(selection) = player.read(&describe) else { panic!("it describes") };
    assert_eq!(selection.near.as_deref(), Some("27,92"));
    let described = text(&player.described(&describe, "v=0\r\n"));
    assert!(described.contains("Content-Base: rtsp://127.0.0.1:8554/video/27,92/\r\n"), "{described}");
    assert!(described.ends_with("v=0\r\na=control:stream\r\n"), "{described}");
    let early = player.read(&request("PLAY", "/video/27,92", ""));
    assert_eq!(status(&early), 455);
    let setup = request("SETUP", "/video/27,92/stream", "Transport: RTP/AVP/TCP;unicast;interleaved=2-3\r\n");
    let Action::SetUp(again, way) = player.read(&setup) else { panic!("it sets up") };
    assert_eq!((again, way), (selection, Way::Interleaved(2)));
    let reply = text(&player.set_up(&setup, way, None));
    assert!(reply.contains("interleaved=2-3") && reply.contains("Session: 5e55\r\n"), "{reply}");
    assert!(matches!(player.read(&request("PLAY", "/video/27,92", "")), Action::Play(_)));
    assert!(matches!(player.read(&request("TEARDOWN", "/video/27,92", "")), Action::Close(_)));
}

#[test]
fn stream_comes_to_a_port() {
    let mut player = conversation(None);
    let setup = request("SETUP", "/video/any/stream", "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n");
    let Action::SetUp(_, way) = player.read(&setup) else { panic!("it sets up") };
    assert_eq!(way, Way::Datagrams { player: 5000 });
    let reply = text(&player.set_up(&setup, way, Some(ServerPorts { packets: 6000, control: 6001 })));
    assert!(reply.contains("client_port=5000-5001") && reply.contains("server_port=6000-6001"), "{reply}");
    assert!(reply.contains("Session: 5e55;timeout=60\r\n"), "{reply}");
    for transport in ["RTP/AVP;multicast;port=5000-5001", "RTP/SAVP;unicast;client_port=5000-5001", "RTP/AVP;unicast"] {
        let setup = request("SETUP", "/video/any", &format!("Transport: {transport}\r\n"));
        assert_eq!(status(&conversation(None).read(&setup)), 461, "{transport}");
    }
}

#[test]
fn strangers_are_refused() {
    let guarded = || conversation(Some("0123456789abcdef"));
    for (headers, may_enter) in [
        ("", false),
        ("Authorization: Basic dXNlcjowMTIzNDU2Nzg5YWJjZGVm\r\n", true),
        ("Authorization: Basic OjAxMjM0NTY3ODlhYmNkZWY=\r\n", true),
        ("Authorization: Basic dXNlcjowMTIzNDU2Nzg5YWJjZGU=\r\n", false),
        ("Authorization: Basic ****\r\n", false),
        ("Authorization: Digest response=1\r\n", false),
    ] {
        let action = guarded().read(&request("OPTIONS", "/video/any", headers));
        assert_eq!(status(&action), if may_enter { 200 } else { 401 }, "{headers}");
    }
}

#[test]
fn guesses_end_the_conversation() {
    let mut guarded = conversation(Some("0123456789abcdef"));
    let guess = request("OPTIONS", "/video/any", "Authorization: Basic dXNlcjowMTIz\r\n");
    let actions: Vec<Action> = (0..3).map(|_| guarded.read(&guess)).collect();
    assert!(matches!(actions[..], [Action::Reply(_), Action::Reply(_), Action::Close(_)]), "{actions:?}");
}

#[test]
fn wrong_addresses_get_a_reason() {
    let Action::Reply(reply) = conversation(None).read(&request("DESCRIBE", "/video", "")) else {
        panic!("it is refused")
    };
    assert!(text(&reply).starts_with("RTSP/1.0 404 an address is rtsp://HOST:PORT/SERVICE/PLACE"), "{}", text(&reply));
    assert_eq!(status(&conversation(None).read(&request("RECORD", "/video/any", ""))), 501);
}

proptest! {
    #[test]
    fn strange_messages_never_panic(start in "[A-Z_]{1,12} [ -~]{0,40} RTSP/1.0", headers in "([A-Za-z]{1,14}: [ -~]{0,60}\r\n){0,4}") {
        let text = format!("{start}\r\n{headers}\r\n");
        if let Ok((rtsp_types::Message::Request(request), _)) = rtsp_types::Message::<Vec<u8>>::parse(text.as_bytes()) {
            let _ = conversation(None).read(&request);
            let _ = conversation(Some("0123456789abcdef")).read(&request);
        }
    }
}
