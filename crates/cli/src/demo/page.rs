//! `roost demo --watch`: the live page over a network that moves.

use std::f64::consts::TAU;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use roost_api::Client;
use roost_dashboard::PageParts;
use roost_terminal::Output;
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, Cell, Service};
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};

use super::world::DemoNetwork;
use crate::commands::dashboard::show;
use crate::failure::{Failure, Outcome};

/// The page's usual port; another one if that is taken.
const PORT: u16 = 7790;

/// The time in which a node goes once around its place.
const ROUND: Duration = Duration::from_secs(60);

/// The distance of a node from its place, cells.
const AWAY: f64 = 7.0;

/// The pause between two moves of a node.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves the page over the network's hub, while its providers go around and one streams.
pub(super) async fn run(network: &DemoNetwork, output: Output) -> Outcome {
    let at = |port| TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let listener = match at(PORT).await {
        Ok(listener) => listener,
        Err(_) => at(0).await.map_err(|error| Failure::failed(format!("cannot listen for browsers: {error}")))?,
    };
    let through = Some(network.requester()?.client()?.clone());
    tokio::select! {
        shown = show(network.hub()?.clone(), listener, PageParts { through, ..PageParts::default() }, output) => shown,
        moved = go_around(network) => moved,
        () = watch_video(network.requester()?.client()?) => Ok(()),
    }
}

/// Moves each provider on a circle, one ahead of the other.
async fn go_around(network: &DemoNetwork) -> Outcome {
    let mut pause = interval(PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let providers = network.providers()?;
    for step in 0_u32.. {
        pause.tick().await;
        for (number, (client, place)) in providers.iter().enumerate() {
            let turns = f64::from(step) / ROUND.as_secs_f64() + number as f64 / providers.len() as f64;
            let (y, x) = (turns * TAU).sin_cos();
            // Less than 8 cells away.
            let cell = Cell::new(place.x + (x * AWAY).round() as i32, place.y + (y * AWAY).round() as i32);
            client.move_to(cell).await?;
        }
    }
    Ok(())
}

/// Receives the video for ever, by way of the hub.
async fn watch_video(client: &Client) {
    let request = ServiceRequest {
        reflect: ReflectionPolicy::Always,
        duration: Some(Duration::from_secs(3600)),
        ..ServiceRequest::new(Service::Video, Area::Anywhere)
    };
    loop {
        if let Ok(mut stream) = client.request(&request).await {
            while let Ok(Some(_)) = stream.next().await {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}
