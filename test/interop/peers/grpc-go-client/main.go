// grpc-go-client is an application that uses grpc-go's own xDS client: it calls each target
// repeatedly, and prints which backend answers.
//
//	GRPC_XDS_BOOTSTRAP=<file> grpc-go-client <milliseconds between calls> <target>…
//
// After SIGUSR1 it makes no more calls and prints its totals, but keeps its channels until SIGTERM, so that
// they report the load of the last calls.
//
// Its output and its calls are described in ../grpc-client.ts.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	method        = "/grpc.health.v1.Health/Check"
	settledAfter  = 20
	callTimeoutMs = 5_000
)

type totals struct {
	Failed  int            `json:"failed"`
	Answers map[string]int `json:"answers"`
}

func main() {
	everyMs, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpc-go-client:", err)
		os.Exit(1)
	}
	stopping, pausing := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stopping, syscall.SIGTERM)
	signal.Notify(pausing, syscall.SIGUSR1)
	// The parent holds our stdin: the end of stdin is the end of the parent, even after SIGKILL.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()

	stop, end := make(chan struct{}), make(chan struct{})
	byTarget := map[string]*totals{}
	var calls, channels sync.WaitGroup
	for _, target := range os.Args[2:] {
		of := &totals{Answers: map[string]int{}}
		byTarget[target] = of
		calls.Add(1)
		channels.Go(func() {
			channel := connect(target)
			defer channel.Close()
			call(channel, target, time.Duration(everyMs)*time.Millisecond, of, stop)
			calls.Done()
			<-end
		})
	}
	isPaused := false
	select {
	case <-pausing:
		isPaused = true
	case <-stopping:
	}
	close(stop)
	calls.Wait()
	tell(map[string]any{"totals": byTarget})
	if isPaused {
		<-stopping
	}
	close(end)
	channels.Wait()
}

func connect(target string) *grpc.ClientConn {
	channel, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpc-go-client:", err)
		os.Exit(1)
	}
	return channel
}

var output sync.Mutex

func tell(line map[string]any) {
	output.Lock()
	defer output.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(line)
}

// call calls the target until stop is closed.
func call(channel *grpc.ClientConn, target string, every time.Duration, of *totals, stop <-chan struct{}) {
	last, streak := "", 0
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		answer, err := ask(channel)
		if err != nil {
			of.Failed++
			streak = 0
			tell(map[string]any{"target": target, "error": fmt.Sprintf("%s: %s", status.Code(err), status.Convert(err).Message())})
		} else {
			of.Answers[answer]++
			if answer != last {
				last, streak = answer, 0
			}
			if streak++; streak == settledAfter {
				tell(map[string]any{"target": target, "settled": answer})
			}
		}
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
}

// ask returns the name of the backend. Every field of a health check has its default, so an empty
// message is a valid request and response.
func ask(channel *grpc.ClientConn) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeoutMs*time.Millisecond)
	defer cancel()
	var header metadata.MD
	if err := channel.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}, grpc.Header(&header)); err != nil {
		return "", err
	}
	if names := header.Get("answered-by"); len(names) > 0 {
		return names[0], nil
	}
	return "", nil
}
