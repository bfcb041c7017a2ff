// Measures lookups of a NATS key-value bucket held in memory: what a lookup
// costs the server and how long it takes, with 1 and with 64 in flight. The
// counterpart of `roost bench hub`; `../compare` runs both in turn.
//
// Usage: bench URL SERVER-PID ENTRIES
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// cpu is the processor time that a process has used, in seconds.
func cpu(pid string) float64 {
	b, _ := os.ReadFile("/proc/" + pid + "/stat")
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	u, _ := strconv.ParseFloat(f[11], 64)
	s, _ := strconv.ParseFloat(f[12], 64)
	return (u + s) / 100
}

func main() {
	url, pid := os.Args[1], os.Args[2]
	n, _ := strconv.Atoi(os.Args[3])
	nc, err := nats.Connect(url)
	if err != nil {
		panic(err)
	}
	js, _ := nc.JetStream()
	kv, err := js.CreateKeyValue(&nats.KeyValueConfig{Bucket: "b", Storage: nats.MemoryStorage})
	if err != nil {
		panic(err)
	}
	val := make([]byte, 64)
	for i := 0; i < n; i++ {
		if _, err := kv.Put(fmt.Sprintf("k.%d", i), val); err != nil {
			panic(err)
		}
	}
	run := func(par int, d time.Duration) {
		var cnt int64
		var mu sync.Mutex
		var lat []time.Duration
		c0 := cpu(pid)
		t0 := time.Now()
		var wg sync.WaitGroup
		for w := 0; w < par; w++ {
			wg.Add(1)
			go func(w int) {
				defer wg.Done()
				var l []time.Duration
				for i := w; time.Since(t0) < d; i += 7919 {
					s := time.Now()
					if _, err := kv.Get(fmt.Sprintf("k.%d", i%n)); err != nil {
						panic(err)
					}
					l = append(l, time.Since(s))
					atomic.AddInt64(&cnt, 1)
				}
				mu.Lock()
				lat = append(lat, l...)
				mu.Unlock()
			}(w)
		}
		wg.Wait()
		e := time.Since(t0).Seconds()
		c := cpu(pid) - c0
		sort.Slice(lat, func(a, b int) bool { return lat[a] < lat[b] })
		fmt.Printf("in flight %d: %.0f/s p50 %v p99 %v hub cpu %.2f us/lookup\n", par, float64(cnt)/e, lat[len(lat)/2], lat[len(lat)*99/100], c/float64(cnt)*1e6)
	}
	run(1, 5*time.Second)
	run(64, 5*time.Second)
}
