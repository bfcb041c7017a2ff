//! Going back to the home that was lost.

use crate::scene::ThreeHubScene;
use crate::*;

/// Started again, or only silent for a while.
#[test]
fn nodes_fail_back_to_revived_home() {
    for_seeds(4, |seed| {
        let mut scene = ThreeHubScene::new(seed);
        let home = scene.hubs[0];
        let is_killed = seed % 2 == 0;
        if is_killed {
            scene.world.kill(home)
        } else {
            scene.world.freeze(home)
        }
        scene.ask_for(40 * SECOND, 500 * MS);
        assert_eq!(scene.homes(), [Some(scene.hubs[1]); 4], "seed {seed}");
        if is_killed {
            scene.world.revive_hub(home)
        } else {
            scene.world.thaw(home)
        }
        // The home may have been tried in vain once, and stands by first.
        for _ in 0..1_400 {
            scene.request();
            scene.run(200 * MS);
        }
        assert_eq!(scene.homes(), [Some(home); 4], "seed {seed}");
        let nodes = |hub: HostId| scene.world.hub_at(hub).status(scene.world.now).nodes;
        assert_eq!(scene.hubs.iter().map(|hub| nodes(*hub)).collect::<Vec<_>>(), [4, 0, 0], "seed {seed}");
        scene.end();
    });
}

/// Each failback costs the standby that does the home's work.
#[test]
fn flapping_home_is_retried_with_backoff() {
    for_seeds(3, |seed| {
        let mut scene = ThreeHubScene::new(seed);
        let (home, node, good) = (scene.hubs[0], scene.requesters[0], scene.hubs[2]);
        scene.world.kill(home);
        scene.run(10 * SECOND);
        scene.world.revive_hub(home);
        let (mut trials, mut lasted) = (0, Duration::ZERO);
        for _ in 0..15 * 60 * 5 {
            scene.run(200 * MS);
            match scene.world.standby(node) {
                Some(standby) if standby == home => {
                    trials += 1;
                    scene.world.break_connections(home, node);
                }
                Some(standby) if standby == good => lasted += 200 * MS,
                _ => {}
            }
        }
        assert!((2..=9).contains(&trials), "seed {seed}: {trials} times in a quarter of an hour");
        assert!(lasted > 14 * 60 * SECOND, "seed {seed}: another one stood by for {lasted:?} only");
        scene.end();
    });
}

#[test]
fn redirect_overrides_failback() {
    for_seeds(3, |seed| {
        let mut scene = ThreeHubScene::new(seed);
        let [lost, home, better] = [0, 1, 2].map(|hub| scene.hubs[hub]);
        let node = scene.requesters[0];
        scene.world.freeze(lost);
        scene.world.dial_timeout = 15 * SECOND;
        scene.ask_for(40 * SECOND, 500 * MS);
        assert_eq!(scene.homes(), [Some(home); 4], "seed {seed}");
        let dials = |world: &World| world.is_dialing(node);
        assert!(scene.world.run_while(120 * SECOND, dials), "seed {seed}: it never tries");
        let to: Vec<Address> = addresses(better.0);
        assert!(scene.world.inject(home, node, Message::Registration(RegistrationMessage::Redirect(to)).encode()));
        scene.run(5 * SECOND);
        assert_eq!(scene.world.home(node), Some(better), "seed {seed}");
        scene.end();
    });
}
