// A video of a node, played by WebRTC: the browser offers, the daemon answers (WHEP).

export interface Selection {
  service: string;
  from: string;
}

export const query = ({ service, from }: Selection) => new URLSearchParams({ service, from }).toString();

export interface Playback {
  /** Ends it on both sides. */
  close: () => void;
  /** The number of pictures that have come. */
  received: () => Promise<number>;
}

/** The time for which a daemon may let the end of a session wait, milliseconds. */
const PATIENCE = 2000;

/** Asks for a video, and gives its stream as soon as there is one. */
export async function play(selection: Selection, show: (stream: MediaStream) => void, lost: () => void): Promise<Playback> {
  const connection = new RTCPeerConnection();
  let session: string | null = null;
  let closing = false;
  const close = () => {
    if (closing) return;
    closing = true;
    // A daemon that sees the connection end forgets the session, and would not know it any more.
    const request = { method: "DELETE", keepalive: true, signal: AbortSignal.timeout(PATIENCE) };
    const ended = session ? fetch(session, request).catch(() => {}) : Promise.resolve();
    void ended.then(() => connection.close());
  };
  try {
    connection.addTransceiver("video", { direction: "recvonly" });
    connection.addEventListener("track", ({ track, streams, receiver }) => {
      // The newest picture matters more than an even pace.
      receiver.jitterBufferTarget = 0;
      show(streams[0] ?? new MediaStream([track]));
    });
    connection.addEventListener("connectionstatechange", () => {
      if (!closing && ["failed", "disconnected", "closed"].includes(connection.connectionState)) lost();
    });
    await connection.setLocalDescription();
    const headers = { "content-type": "application/sdp" };
    const body = connection.localDescription?.sdp;
    const answer = await fetch(`/api/video?${query(selection)}`, { method: "POST", headers, body });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    session = answer.headers.get("location");
    await connection.setRemoteDescription({ type: "answer", sdp: await answer.text() });
  } catch (error) {
    close();
    throw error;
  }
  const received = async () => {
    const reports = [...(await connection.getStats()).values()] as { type: string; framesReceived?: number }[];
    return reports.find(({ type }) => type === "inbound-rtp")?.framesReceived ?? 0;
  };
  return { close, received };
}
