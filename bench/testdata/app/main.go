// The app that is pushed: it reads the body and responds with its index, or with N bytes for ?bytes=N, without their
// length if also ?chunked=1. For /print?rate=R&lines=N it writes N lines, R per second, each with its number and the
// time. For /exit?code=N it exits. /echo is a WebSocket that echoes frames, and calls of gRPC get their message back.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Callers without network access to the app wait for this line.
	fmt.Println("listening")
	index := os.Getenv("CF_INSTANCE_INDEX")
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: &protocols,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Header.Get("Content-Type") == "application/grpc":
				call(w, r)
				return
			case r.URL.Path == "/echo":
				_ = echo(w, r) // the client has gone
				return
			case r.ContentLength != 0 && r.Header.Get("Content-Type") == "application/octet-stream":
				_, _ = io.Copy(io.Discard, r.Body)
			}
			if r.URL.Path == "/print" {
				rate, _ := strconv.Atoi(r.FormValue("rate"))
				lines, _ := strconv.Atoi(r.FormValue("lines"))
				go write(rate, lines)
			}
			if code, err := strconv.Atoi(r.FormValue("code")); err == nil && r.URL.Path == "/exit" {
				os.Exit(code)
			}
			if n, err := strconv.Atoi(r.FormValue("bytes")); err == nil && n > 0 {
				answer(w, n, r.FormValue("chunked") != "")
				return
			}
			fmt.Fprintf(w, "instance %s\n", index)
		})}
	fmt.Fprintln(os.Stderr, s.Serve(l))
	os.Exit(1)
}

// write writes lines as a busy app does: some every few milliseconds, each with
// its own write.
func write(rate, lines int) {
	began := time.Now()
	for n := 0; n < lines; {
		for due := int(time.Since(began).Seconds() * float64(rate)); n < min(due, lines); n++ {
			fmt.Fprintf(os.Stdout, "bench %d %d a line of some length, as logs have them, with words\n", n,
				time.Now().UnixNano())
		}
		time.Sleep(2 * time.Millisecond)
	}
}
