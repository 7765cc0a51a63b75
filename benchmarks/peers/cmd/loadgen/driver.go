package main

import (
	"bufio"
	"fmt"
	"net"
	"syscall"
	"time"

	"tributary.dev/benchmarks/peers/internal/catalogue"
)

// driver makes changes through a server's control port, and knows what is true now.
type driver struct {
	conn      net.Conn
	out       *bufio.Writer
	in        *bufio.Reader
	origin    byte
	sequence  uint32
	sequences map[int]uint32
}

func (f *fleet) drive(cmd command) (*driver, error) {
	if f.driver != nil {
		return f.driver, nil
	}
	conn, err := net.Dial("tcp", cmd.Control)
	if err != nil {
		return nil, err
	}
	f.driver = &driver{
		conn: conn, out: bufio.NewWriter(conn), in: bufio.NewReader(conn),
		origin: cmd.Origin[0], sequences: map[int]uint32{},
	}
	return f.driver, nil
}

// next picks the sequence number of the next change of a resource.
func (d *driver) next(index int) uint32 {
	d.sequence++
	d.sequences[index] = d.sequence
	return d.sequence
}

// change stamps the moment and writes the change.
func (d *driver) change(index int, sequence uint32) error {
	marker := catalogue.Marker(time.Now().UnixNano(), sequence, d.origin)
	if _, err := fmt.Fprintf(d.out, "c %d %s\n", index, marker); err != nil {
		return err
	}
	return d.out.Flush()
}

// sync returns when the server has applied every change so far.
func (d *driver) sync() error {
	if _, err := d.out.WriteString("s\n"); err != nil {
		return err
	}
	if err := d.out.Flush(); err != nil {
		return err
	}
	_, err := d.in.ReadString('\n')
	return err
}

func (f *fleet) forgetLatencies() {
	for _, c := range f.clients {
		c.delivery, c.ack = c.delivery[:0], c.ack[:0]
	}
}

// latencies of all clients that read; call it when nothing is under way.
func (f *fleet) latencies(answer *result, clients []*client) {
	var delivery, ack []int64
	for _, c := range clients {
		delivery = append(delivery, c.delivery...)
		ack = append(ack, c.ack...)
	}
	answer.Deliveries = int64(len(delivery))
	answer.Delivery, answer.Ack = quantilesOf(delivery), quantilesOf(ack)
}

func (f *fleet) arrived() {
	if f.left.Add(-1) == 0 {
		f.all <- struct{}{}
	}
}

// changes makes one change after another, each when all clients have the last: a closed loop. It
// ends early when the budget of time is spent.
func (f *fleet) changes(cmd command) (result, error) {
	var answer result
	driver, err := f.drive(cmd)
	if err != nil {
		return answer, err
	}
	f.forgetLatencies()
	f.all = make(chan struct{}, 1)
	deadline := time.Now().Add(time.Duration(cmd.BudgetMs) * time.Millisecond)
	for i := 0; i < cmd.Count && (i == 0 || time.Now().Before(deadline)); i++ {
		index := i % cmd.Span
		sequence := driver.next(index)
		f.left.Store(int32(len(f.clients)))
		f.awaited.Store(sequence)
		if err := driver.change(index, sequence); err != nil {
			return answer, err
		}
		if err := f.wait(f.all, cmd.TimeoutMs, "change"); err != nil {
			return answer, fmt.Errorf("%w: %d clients still wait for change %d", err, f.left.Load(), i)
		}
		answer.Changes++
		time.Sleep(time.Duration(cmd.GapMs) * time.Millisecond)
	}
	f.awaited.Store(0)
	f.latencies(&answer, f.clients)
	return answer, nil
}

// edit makes changes and returns once the server has applied them, whoever is connected.
func (f *fleet) edit(cmd command) error {
	driver, err := f.drive(cmd)
	if err != nil {
		return err
	}
	for i := range cmd.Count {
		index := i % cmd.Span
		if err := driver.change(index, driver.next(index)); err != nil {
			return err
		}
	}
	return driver.sync()
}

// flood makes changes at a fixed rate, whatever the server does, and waits until all clients that
// read are exact.
func (f *fleet) flood(cmd command) (result, error) {
	var answer result
	driver, err := f.drive(cmd)
	if err != nil {
		return answer, err
	}
	f.forgetLatencies()
	started := time.Now()
	for i := range cmd.Count {
		due := started.Add(time.Duration(i) * time.Second / time.Duration(cmd.PerSecond))
		if ahead := time.Until(due); ahead > 0 {
			time.Sleep(ahead)
		}
		index := i % cmd.Span
		if err := driver.change(index, driver.next(index)); err != nil {
			return answer, err
		}
	}
	if err := driver.sync(); err != nil {
		return answer, err
	}
	last := time.Now()
	answer.Changes = cmd.Count
	answer.TakenPerSecond = float64(cmd.Count) / last.Sub(started).Seconds()
	readers := make([]*client, 0, len(f.clients))
	for _, c := range f.clients {
		if c.paused.Load() == nil {
			readers = append(readers, c)
		}
	}
	err = f.converge(readers, cmd.TimeoutMs)
	answer.ConvergedMs = lastDeliveryMs(readers, last)
	f.latencies(&answer, readers)
	return answer, err
}

// cut kills a process (the control plane that the server under test depends on), and measures
// until each client holds only what another one made.
func (f *fleet) cut(cmd command) (result, error) {
	var answer result
	for _, c := range f.clients {
		c.foreign = len(c.held)
	}
	f.switchLeft.Store(int32(len(f.clients)))
	f.switchTimes = nil
	f.all = make(chan struct{}, 1)
	f.wantedOrigin.Store(uint32(cmd.Origin[0]))
	killed := time.Now().UnixNano()
	if err := syscall.Kill(cmd.Pid, syscall.SIGKILL); err != nil {
		return answer, err
	}
	err := f.wait(f.all, cmd.TimeoutMs, "cut")
	f.switchMu.Lock()
	defer f.switchMu.Unlock()
	times := make([]int64, len(f.switchTimes))
	for i, at := range f.switchTimes {
		times[i] = at - killed
	}
	answer.Delivery = quantilesOf(times)
	answer.Deliveries = int64(len(times))
	return answer, err
}

func (f *fleet) switched() {
	f.switchMu.Lock()
	f.switchTimes = append(f.switchTimes, time.Now().UnixNano())
	f.switchMu.Unlock()
	if f.switchLeft.Add(-1) == 0 {
		f.all <- struct{}{}
	}
}
