// loadgen plays the clients of an ADS server, and drives the changes.
//
// It reads one JSON command a line on stdin, and answers each with one JSON line on stdout once
// the command is done, so that whoever drives it can measure the server between two commands.
// The commands are the fields of `command` below; the answers are those of `result`.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

type command struct {
	Op string `json:"op"`

	// connect: how many clients, over how many connections (0: one a client), to where.
	Target      string `json:"target"`
	Clients     int    `json:"clients"`
	Connections int    `json:"connections"`
	// What each asks for: a wildcard or glob and how many members it has, or `shared` names that
	// all clients ask for (the first of the catalogue) and `own` names that only this client does.
	Wildcard  string `json:"wildcard"`
	Authority string `json:"authority"`
	Members   int    `json:"members"`
	Shared    int    `json:"shared"`
	Own       int    `json:"own"`
	// OldStyle asks for names without xdstp://; Sotw speaks state of the world instead of delta.
	OldStyle bool `json:"oldStyle"`
	Sotw     bool `json:"sotw"`
	// Resume says what was held before (initial_resource_versions); the answer comes when it has been quiet.
	Resume bool `json:"resume"`
	// KeepVersions remembers versions for a later Resume.
	KeepVersions bool `json:"keepVersions"`
	// FixedWindow keeps the HTTP/2 windows at 64 KiB, so that a paused reader holds little.
	FixedWindow bool `json:"fixedWindow"`
	// OneByOne lets the next client in when the last is exact: memory then shows what is held, not what was under way.
	OneByOne bool `json:"oneByOne"`

	// changes, flood, edit: change the first `Span` resources in turn.
	Control   string `json:"control"`
	Origin    string `json:"origin"`
	Count     int    `json:"count"`
	Span      int    `json:"span"`
	PerSecond int    `json:"perSecond"`
	BudgetMs  int    `json:"budgetMs"`
	// changes: rest between the last delivery of one change and the next change.
	GapMs     int `json:"gapMs"`
	TimeoutMs int `json:"timeoutMs"`

	// edit: make `Count` changes and wait for the server, but for no client.
	// pause: the first `Count` clients stop reading. unpause: they read on.
	// cut: kill the process `Pid`, and wait until all content is of `Origin`.
	Pid int `json:"pid"`
}

type result struct {
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	// How many clients hold exactly what they should, of how many.
	Exact   int `json:"exact"`
	Clients int `json:"clients"`
	Failed  int `json:"failed"`
	// Received since the last command, by all clients.
	Messages   int64   `json:"messages"`
	Resources  int64   `json:"resources"`
	Removed    int64   `json:"removed"`
	Bytes      int64   `json:"bytes"`
	ElapsedMs  float64 `json:"elapsedMs"`
	Changes    int     `json:"changes"`
	Deliveries int64   `json:"deliveries"`
	// From the moment of the change to its delivery, and to the end of the client's ACK.
	Delivery *quantiles `json:"delivery,omitempty"`
	Ack      *quantiles `json:"ack,omitempty"`
	// flood: changes per second that the server took, and the wait from the last change until all were exact.
	TakenPerSecond float64 `json:"takenPerSecond"`
	ConvergedMs    float64 `json:"convergedMs"`
}

type quantiles struct {
	P50Ms float64 `json:"p50Ms"`
	P99Ms float64 `json:"p99Ms"`
	MaxMs float64 `json:"maxMs"`
	Count int     `json:"count"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 0, 1<<16), 1<<20)
	fleet := &fleet{}
	for lines.Scan() {
		var cmd command
		answer := result{}
		if err := json.Unmarshal(lines.Bytes(), &cmd); err != nil {
			answer.Error = err.Error()
		} else if answer, err = fleet.run(cmd); err != nil {
			answer.Error = err.Error()
		} else {
			answer.OK = true
		}
		line, _ := json.Marshal(answer)
		fmt.Println(string(line))
	}
}
