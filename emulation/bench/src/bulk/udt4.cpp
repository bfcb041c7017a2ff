// An endless object by UDT4, Debian's libudt: what `emulate bench bulk` measures ours beside.
//   udt4 receive PORT       prints how many bytes have come, every 20 ms
//   udt4 send ADDRESS PORT  sends until it is killed
#include <arpa/inet.h>
#include <udt/udt.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static int failed(const char *what) {
    std::fprintf(stderr, "%s: %s\n", what, UDT::getlasterror().getErrorMessage());
    return 1;
}

// Room for several times what the longest path holds.
static UDTSOCKET open_socket() {
    UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
    int packet = 1500, flight = 51200, buffer = 64 << 20, system = 4 << 20;
    UDT::setsockopt(socket, 0, UDT_MSS, &packet, sizeof packet);
    UDT::setsockopt(socket, 0, UDT_FC, &flight, sizeof flight);
    UDT::setsockopt(socket, 0, UDT_SNDBUF, &buffer, sizeof buffer);
    UDT::setsockopt(socket, 0, UDT_RCVBUF, &buffer, sizeof buffer);
    UDT::setsockopt(socket, 0, UDP_SNDBUF, &system, sizeof system);
    UDT::setsockopt(socket, 0, UDP_RCVBUF, &system, sizeof system);
    return socket;
}

static int receive(sockaddr_in at, std::vector<char> &block) {
    UDTSOCKET listener = open_socket();
    if (UDT::bind(listener, (sockaddr *)&at, sizeof at) == UDT::ERROR) return failed("bind");
    if (UDT::listen(listener, 1) == UDT::ERROR) return failed("listen");
    sockaddr_in peer;
    int length = sizeof peer;
    UDTSOCKET socket = UDT::accept(listener, (sockaddr *)&peer, &length);
    if (socket == UDT::INVALID_SOCK) return failed("accept");
    std::uint64_t bytes = 0;
    auto told = std::chrono::steady_clock::now();
    for (;;) {
        int got = UDT::recv(socket, block.data(), (int)block.size(), 0);
        if (got == UDT::ERROR) return failed("recv");
        bytes += (std::uint64_t)got;
        auto now = std::chrono::steady_clock::now();
        if (now - told < std::chrono::milliseconds(20)) continue;
        told = now;
        std::printf("%llu\n", (unsigned long long)bytes);
        std::fflush(stdout);
    }
}

static int send(sockaddr_in to, std::vector<char> &block) {
    UDTSOCKET socket = open_socket();
    if (UDT::connect(socket, (sockaddr *)&to, sizeof to) == UDT::ERROR) return failed("connect");
    for (;;)
        if (UDT::send(socket, block.data(), (int)block.size(), 0) == UDT::ERROR) return failed("send");
}

int main(int count, char **words) {
    UDT::startup();
    std::vector<char> block(1 << 16, 7);
    sockaddr_in address;
    std::memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    if (count == 3 && !std::strcmp(words[1], "receive")) {
        address.sin_port = htons((std::uint16_t)std::atoi(words[2]));
        return receive(address, block);
    }
    if (count == 4 && !std::strcmp(words[1], "send") && inet_aton(words[2], &address.sin_addr)) {
        address.sin_port = htons((std::uint16_t)std::atoi(words[3]));
        return send(address, block);
    }
    std::fprintf(stderr, "udt4 receive PORT | udt4 send ADDRESS PORT\n");
    return 2;
}
