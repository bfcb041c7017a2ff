//! Video for players by RTSP.
