package main

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	"tributary.dev/benchmarks/peers/internal/catalogue"
	"tributary.dev/benchmarks/peers/internal/rawgrpc"
)

// client is one stream and what it holds: a sequence number for each name that it asked for.
//
// Its slots are the shared names (from 0) and its own range of the catalogue. Only its receiving
// goroutine writes; the fleet reads the atomics.
type client struct {
	fleet         *fleet
	naming        catalogue.Naming
	sotw          bool
	shared        int
	ownFrom, ownN int

	// held is sequence+1, or 0 for a name that is not held.
	held    []atomic.Uint32
	origins []byte
	// versions is kept only if asked: one a slot in delta, one of all in state of the world.
	versions []string

	missing      atomic.Int32
	foreign      int
	lastDelivery atomic.Int64
	awaited      uint32
	paused       atomic.Pointer[chan struct{}]

	delivery, ack []int64
	// ackHead is the part that is the same in each ACK; in state of the world it repeats all names, behind the version.
	ackHead []byte
}

func newClient(fleet *fleet, number int, cmd command) *client {
	c := &client{
		fleet: fleet, naming: catalogue.Naming{Authority: cmd.Authority, OldStyle: cmd.OldStyle},
		sotw: cmd.Sotw, shared: cmd.Shared, ownFrom: cmd.Shared + number*cmd.Own, ownN: cmd.Own,
	}
	if cmd.Wildcard != "" {
		c.shared, c.ownN = 0, cmd.Members
		c.ownFrom = 0
	}
	c.held = make([]atomic.Uint32, c.shared+c.ownN)
	c.origins = make([]byte, len(c.held))
	if cmd.KeepVersions {
		c.versions = make([]string, max(len(c.held), 1))
	}
	c.missing.Store(int32(len(c.held)))
	c.foreign = len(c.held)
	if c.sotw {
		c.ackHead = appendText(c.appendNames(nil, cmd), 4, catalogue.TypeURL)
	} else {
		c.ackHead = appendText(nil, 2, catalogue.TypeURL)
	}
	return c
}

func (c *client) slot(index int) (int, bool) {
	if index < c.shared {
		return index, true
	}
	if at := index - c.ownFrom; at >= 0 && at < c.ownN {
		return c.shared + at, true
	}
	return 0, false
}

func (c *client) index(slot int) int {
	if slot < c.shared {
		return slot
	}
	return c.ownFrom + slot - c.shared
}

func appendText(out []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(out, number, protowire.BytesType), text)
}

func appendBytes(out []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), value)
}

// appendNames appends what the client subscribes: field 3 of both kinds of request.
func (c *client) appendNames(out []byte, cmd command) []byte {
	if cmd.Wildcard != "" {
		return appendText(out, 3, cmd.Wildcard)
	}
	for slot := range c.held {
		out = appendText(out, 3, c.naming.Name(c.index(slot)))
	}
	return out
}

// firstRequest subscribes; on resume it also says what is held.
func (c *client) firstRequest(number int, cmd command) []byte {
	node := appendText(nil, 1, "bench-client-"+string(rune('a'+number%26)))
	if c.sotw {
		var out []byte
		if cmd.Resume && c.versions != nil {
			out = appendText(out, 1, c.versions[0])
		}
		return append(appendBytes(out, 2, node), c.ackHead...)
	}
	out := append(appendBytes(nil, 1, node), c.ackHead...)
	out = c.appendNames(out, cmd)
	if !cmd.Resume || c.versions == nil {
		return out
	}
	for slot := range c.held {
		if version := c.versions[slot]; version != "" {
			pair := appendText(nil, 1, c.naming.Name(c.index(slot)))
			out = appendBytes(out, 5, appendText(pair, 2, version))
		}
	}
	return out
}

// open starts the stream and returns once its first request is written.
func (c *client) open(ctx context.Context, conn *grpc.ClientConn, first []byte) error {
	stream, err := conn.NewStream(ctx,
		&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, rawgrpc.Method(c.sotw),
		grpc.ForceCodecV2(rawgrpc.Codec{}), grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&rawgrpc.Out{Pieces: [][]byte{first}}); err != nil {
		return err
	}
	go c.receive(stream)
	return nil
}

func (c *client) receive(stream grpc.ClientStream) {
	for {
		if gate := c.paused.Load(); gate != nil {
			<-*gate
		}
		var in rawgrpc.In
		if err := stream.RecvMsg(&in); err != nil {
			c.fleet.ended(err)
			return
		}
		if err := c.take(stream, &in); err != nil {
			c.fleet.ended(err)
			return
		}
	}
}

// take reads one response and ACKs it.
func (c *client) take(stream grpc.ClientStream, in *rawgrpc.In) error {
	now := time.Now().UnixNano()
	fleet := c.fleet
	message := in.Bytes()
	fleet.messages.Add(1)
	fleet.bytes.Add(int64(len(message)))
	made := len(c.delivery)
	read, err := c.walk(message, now)
	if err != nil {
		return err
	}
	c.lastDelivery.Store(now)
	ack := c.ackOf(read)
	in.Free()
	if err := stream.SendMsg(ack); err != nil {
		return err
	}
	if len(c.delivery) > made {
		spent := time.Now().UnixNano() - now
		for _, latency := range c.delivery[made:] {
			c.ack = append(c.ack, latency+spent)
		}
	}
	// After the ACK, so that whoever waits sees all figures of this response.
	if want := fleet.awaited.Load(); want != 0 && c.awaited == want {
		c.awaited = 0
		fleet.arrived()
	}
	return nil
}

func (c *client) walk(message []byte, now int64) (envelope, error) {
	onResource := func(found entry) { c.hold(found, now) }
	if c.sotw {
		read, err := walkSotw(message, onResource)
		if c.versions != nil {
			c.versions[0] = string(read.version)
		}
		return read, err
	}
	return walkDelta(message, onResource, func(name []byte) {
		c.fleet.removed.Add(1)
		if index, ok := nameIndex(name); ok {
			if slot, ok := c.slot(index); ok && c.held[slot].Swap(0) != 0 {
				c.missing.Add(1)
			}
		}
	})
}

// ackOf accepts a response; it copies what it needs of it.
func (c *client) ackOf(read envelope) *rawgrpc.Out {
	if !c.sotw {
		return &rawgrpc.Out{Pieces: [][]byte{c.ackHead, appendBytes(nil, 6, read.nonce)}}
	}
	// In the order of the fields' numbers, as protobuf libraries encode them.
	version, nonce := appendBytes(nil, 1, read.version), appendBytes(nil, 5, read.nonce)
	return &rawgrpc.Out{Pieces: [][]byte{version, c.ackHead, nonce}}
}

func (c *client) hold(found entry, now int64) {
	fleet := c.fleet
	fleet.resources.Add(1)
	index, ok := nameIndex(found.name)
	if !ok {
		return
	}
	slot, ok := c.slot(index)
	if !ok {
		return
	}
	if c.versions != nil && !c.sotw {
		c.versions[slot] = string(found.version)
	}
	before := c.held[slot].Swap(found.sequence + 1)
	if found.made != 0 && before != found.sequence+1 {
		c.delivery = append(c.delivery, now-found.made)
	}
	if want := fleet.awaited.Load(); want != 0 && found.sequence == want && before != want+1 {
		c.awaited = want
	}
	c.countOrigin(slot, found.origin)
	if before == 0 && c.missing.Add(-1) == 0 {
		fleet.completed()
	}
}

// countOrigin notes when all that is held comes from the server that the fleet waits for.
func (c *client) countOrigin(slot int, origin byte) {
	if c.origins[slot] == origin {
		return
	}
	wanted := byte(c.fleet.wantedOrigin.Load())
	if wanted != 0 {
		if origin == wanted {
			c.foreign--
		} else if c.origins[slot] == wanted {
			c.foreign++
		}
		if c.foreign == 0 {
			c.fleet.switched()
		}
	}
	c.origins[slot] = origin
}
