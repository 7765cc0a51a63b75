package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// dialsAtOnce stays below the backlog of a Node server (511): in a larger burst the kernel drops
// connections, and the client's retry a second later is then measured instead of the server.
const dialsAtOnce = 256

// windowBytes is the HTTP/2 window of every client: like Envoy's, far larger than any answer. With
// the 64 KiB that HTTP/2 begins with, a storm measures round trips.
const windowBytes = 16 << 20

// quietMs without a message means that nothing more will come on a resumed stream.
const quietMs = 1500

// fleet is all clients of one run, and what they count together.
type fleet struct {
	clients []*client
	conns   []*grpc.ClientConn
	cancel  context.CancelFunc
	driver  *driver
	closing atomic.Bool
	// broken is closed when the first stream ends that should not have.
	broken    chan struct{}
	breakOnce *sync.Once

	messages, resources, removed, bytes, failures atomic.Int64
	lastError                                     atomic.Pointer[string]

	incomplete atomic.Int32
	whole      chan struct{}

	awaited atomic.Uint32
	left    atomic.Int32
	all     chan struct{}

	wantedOrigin atomic.Uint32
	switchLeft   atomic.Int32
	switchMu     sync.Mutex
	switchTimes  []int64
}

func (f *fleet) run(cmd command) (result, error) {
	for _, counter := range []*atomic.Int64{&f.messages, &f.resources, &f.removed, &f.bytes} {
		counter.Store(0)
	}
	started := time.Now()
	var answer result
	var err error
	switch cmd.Op {
	case "connect":
		err = f.connect(cmd)
	case "disconnect":
		f.disconnect()
	case "changes":
		answer, err = f.changes(cmd)
	case "flood":
		answer, err = f.flood(cmd)
	case "edit":
		err = f.edit(cmd)
	case "pause":
		f.pause(cmd.Count)
	case "unpause":
		answer, err = f.unpause(cmd)
	case "cut":
		answer, err = f.cut(cmd)
	default:
		err = fmt.Errorf("unknown op %q", cmd.Op)
	}
	answer.ElapsedMs = float64(time.Since(started).Microseconds()) / 1000
	answer.Clients = len(f.clients)
	answer.Failed = int(f.failures.Load())
	answer.Messages, answer.Resources = f.messages.Load(), f.resources.Load()
	answer.Removed, answer.Bytes = f.removed.Load(), f.bytes.Load()
	answer.Exact = f.exact(f.clients)
	if last := f.lastError.Load(); last != nil && answer.Failed > 0 && err == nil {
		err = fmt.Errorf("%d streams ended: %s", answer.Failed, *last)
	}
	return answer, err
}

func (f *fleet) connect(cmd command) error {
	if cmd.Resume {
		if len(f.clients) != cmd.Clients {
			return fmt.Errorf("resume: there were %d clients", len(f.clients))
		}
	} else {
		f.clients = make([]*client, cmd.Clients)
		for i := range f.clients {
			f.clients[i] = newClient(f, i, cmd)
		}
	}
	f.incomplete.Store(int32(len(f.clients)))
	f.whole = make(chan struct{})
	f.failures.Store(0)
	f.closing.Store(false)
	f.broken, f.breakOnce = make(chan struct{}), &sync.Once{}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	if err := f.dial(cmd); err != nil {
		return err
	}
	firsts := make([][]byte, len(f.clients))
	for i, c := range f.clients {
		firsts[i] = c.firstRequest(i, cmd)
	}
	var opening sync.WaitGroup
	atOnce := dialsAtOnce
	if cmd.OneByOne {
		atOnce = 1
	}
	admission := make(chan struct{}, atOnce)
	// A server that allows fewer streams a connection than are asked for leaves some waiting for ever.
	timer := time.AfterFunc(time.Duration(cmd.TimeoutMs)*time.Millisecond, cancel)
	for i, c := range f.clients {
		admission <- struct{}{}
		opening.Add(1)
		go func() {
			defer opening.Done()
			if err := c.open(ctx, f.conns[i%len(f.conns)], firsts[i]); err != nil {
				f.ended(err)
			}
			for cmd.OneByOne && c.missing.Load() > 0 && f.failures.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			<-admission
		}()
	}
	opening.Wait()
	if !timer.Stop() {
		return fmt.Errorf("connect: not all streams open after %d ms", cmd.TimeoutMs)
	}
	if cmd.Resume {
		f.waitQuiet()
		return nil
	}
	return f.wait(f.whole, cmd.TimeoutMs, "connect")
}

func (f *fleet) dial(cmd command) error {
	count := cmd.Connections
	if count == 0 {
		count = cmd.Clients
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
		grpc.WithDisableServiceConfig(),
	}
	window := int32(windowBytes)
	if cmd.FixedWindow {
		window = 64 << 10
	}
	options = append(options, grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window))
	f.conns = make([]*grpc.ClientConn, count)
	for i := range f.conns {
		conn, err := grpc.NewClient("passthrough:///"+cmd.Target, options...)
		if err != nil {
			return err
		}
		f.conns[i] = conn
	}
	return nil
}

func (f *fleet) disconnect() {
	f.closing.Store(true)
	if f.cancel != nil {
		f.cancel()
	}
	for _, conn := range f.conns {
		conn.Close()
	}
	f.conns = nil
}

func (f *fleet) ended(err error) {
	if f.closing.Load() {
		return
	}
	text := err.Error()
	f.lastError.Store(&text)
	f.failures.Add(1)
	f.breakOnce.Do(func() { close(f.broken) })
}

func (f *fleet) completed() {
	if f.incomplete.Add(-1) == 0 {
		close(f.whole)
	}
}

func (f *fleet) wait(done <-chan struct{}, timeoutMs int, what string) error {
	select {
	case <-done:
		return nil
	case <-f.broken:
		return fmt.Errorf("%s: a stream ended: %s", what, *f.lastError.Load())
	case <-time.After(time.Duration(timeoutMs) * time.Millisecond):
		return fmt.Errorf("%s: not done after %d ms", what, timeoutMs)
	}
}

func (f *fleet) waitQuiet() {
	for before := int64(-1); f.messages.Load() != before; {
		before = f.messages.Load()
		time.Sleep(quietMs * time.Millisecond)
	}
}

// exact counts the clients that hold the current content of every name they asked for.
func (f *fleet) exact(clients []*client) int {
	count := 0
	for _, c := range clients {
		if c.exact() {
			count++
		}
	}
	return count
}

func (c *client) exact() bool {
	for slot := range c.held {
		want := uint32(1)
		if truth := c.fleet.driver; truth != nil {
			want = truth.sequences[c.index(slot)] + 1
		}
		if c.held[slot].Load() != want {
			return false
		}
	}
	return true
}

// pause must be called when nothing is under way: a client that waits for a message takes that one.
func (f *fleet) pause(count int) {
	gate := make(chan struct{})
	for _, c := range f.clients[:count] {
		c.paused.Store(&gate)
	}
}

func (f *fleet) unpause(cmd command) (result, error) {
	var answer result
	started := time.Now()
	var gate *chan struct{}
	var slow []*client
	for _, c := range f.clients {
		if held := c.paused.Swap(nil); held != nil {
			gate = held
			slow = append(slow, c)
		}
	}
	if gate != nil {
		close(*gate)
	}
	err := f.converge(slow, cmd.TimeoutMs)
	answer.ConvergedMs = lastDeliveryMs(slow, started)
	return answer, err
}

// converge waits until these clients are exact. It looks every few ms, and is only called when
// no more changes come; the time that counts is that of the last delivery.
func (f *fleet) converge(clients []*client, timeoutMs int) error {
	deadline := time.Now().Add(time.Duration(timeoutMs) * time.Millisecond)
	for f.exact(clients) < len(clients) {
		if f.failures.Load() > 0 {
			return fmt.Errorf("a stream ended: %s", *f.lastError.Load())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d clients exact after %d ms", f.exact(clients), len(clients), timeoutMs)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func lastDeliveryMs(clients []*client, since time.Time) float64 {
	last := since.UnixNano()
	for _, c := range clients {
		last = max(last, c.lastDelivery.Load())
	}
	return float64(last-since.UnixNano()) / 1e6
}

func quantilesOf(nanos []int64) *quantiles {
	if len(nanos) == 0 {
		return nil
	}
	slices.Sort(nanos)
	at := func(share float64) float64 {
		return float64(nanos[min(len(nanos)-1, int(share*float64(len(nanos))))]) / 1e6
	}
	return &quantiles{P50Ms: at(0.5), P99Ms: at(0.99), MaxMs: at(1), Count: len(nanos)}
}
