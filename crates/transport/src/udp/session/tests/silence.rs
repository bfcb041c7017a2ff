//! The probes to a silent remote: their cause, their intervals and their end.

use super::*;

#[test]
fn silent_remote_is_given_up() {
    let mut pair = SessionPair::new(WireProfile { loss: 100, ..WireProfile::default() }, 1);
    pair.send(0, 3, message(0, 0, 30)).unwrap();
    let start = pair.now;
    while let Ok(more) = pair.step() {
        assert!(more);
    }
    let waited = pair.now - start;
    assert!(waited > Duration::from_secs(9) && waited < Duration::from_secs(14), "{waited:?}");
}

#[test]
fn probe_backoff_starts_at_measured_rtt() {
    for rtt in [10, 100, 400].map(Duration::from_millis) {
        let mut session = Session::new(PACKET, QUEUE, rtt);
        let (mut now, mut packet, mut left) = (Instant::now(), Vec::new(), Vec::new());
        session.send_reliable(now, 0, &Delivery::default(), message(0, 0, 30)).unwrap();
        while left.len() < 5 {
            while session.poll_packet(now, &mut packet) {
                left.push(now);
            }
            left.dedup();
            now = session.deadline().expect("it goes on");
            session.handle_timeout(now).unwrap();
        }
        let gaps: Vec<_> = left.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // Three round trips, since the variation is unknown, and the longest delay of an acknowledgement.
        assert_eq!(gaps[0], 3 * rtt + Duration::from_millis(5));
        let longest = gaps[0].max(Duration::from_secs(2));
        assert!(gaps.windows(2).all(|pair| pair[1] == (2 * pair[0]).min(longest)), "{gaps:?}");
    }
}

#[test]
fn last_probe_may_still_be_answered() {
    let mut session = Session::new(PACKET, QUEUE, Duration::from_millis(2500));
    let (start, mut packet) = (Instant::now(), Vec::new());
    session.send_reliable(start, 0, &Delivery::default(), message(0, 0, 30)).unwrap();
    while session.poll_packet(start, &mut packet) {}
    for _ in 0..3 {
        let now = session.deadline().unwrap();
        assert_eq!(session.handle_timeout(now), Ok(()));
        while session.poll_packet(now, &mut packet) {}
        assert_eq!(session.handle_timeout(now + DELAY), Ok(()));
    }
    assert_eq!(session.handle_timeout(session.deadline().unwrap()), Err(RemoteSilent));
}

#[test]
fn forced_probes_keep_silence_limit() {
    for rtt in [1, 30, 100, 600].map(Duration::from_millis) {
        let mut session = Session::new(PACKET, QUEUE, rtt);
        let (start, mut packet, mut sent) = (Instant::now(), Vec::new(), 0);
        for index in 0..100 {
            session.send_reliable(start, 0, &Delivery::default(), message(0, index, 1000)).unwrap();
        }
        let gave_up = (1..1000).find_map(|turn: u32| {
            let now = start + turn * Duration::from_millis(50);
            session.probe();
            while session.poll_packet(now, &mut packet) {
                sent += 1;
            }
            session.handle_timeout(now).err().map(|RemoteSilent| now)
        });
        let waited = gave_up.expect("it is given up") - start;
        assert!(waited >= Duration::from_secs(10) && waited < Duration::from_secs(11), "{rtt:?}: {waited:?}");
        // A packet per turn, a window, and two for each timeout.
        assert!(sent <= 200 + 10 + 2 * 16, "{rtt:?}: {sent}");
    }
}
