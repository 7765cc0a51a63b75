// Package control is the back door through which the driver changes resources: lines over TCP,
// because an HTTP request for each of 1,000 changes a second would show in the server's CPU.
//
//	c INDEX MARKER   change a resource; no answer
//	s                answered by "s" once every change before it has been applied
package control

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// Serve accepts drivers for ever. It applies the changes of each driver in order.
func Serve(listener net.Listener, change func(index int, marker string)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go serveDriver(conn, change)
	}
}

func serveDriver(conn net.Conn, change func(index int, marker string)) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 1 && fields[0] == "s":
			if _, err := conn.Write([]byte("s\n")); err != nil {
				return
			}
		case len(fields) == 3 && fields[0] == "c":
			index, err := strconv.Atoi(fields[1])
			if err != nil {
				return
			}
			change(index, fields[2])
		default:
			fmt.Fprintf(os.Stderr, "control: not a command: %q\n", lines.Text())
			return
		}
	}
}

// AnnounceReady tells the harness, as a JSON line, where to find the server.
func AnnounceReady(serving, control net.Listener) {
	line, _ := json.Marshal(map[string]string{
		"event":   "ready",
		"listen":  serving.Addr().String(),
		"control": control.Addr().String(),
	})
	fmt.Println(string(line))
}
