package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// passOn passes a response on as the router does, in pieces of the given size. It reports false for one that the
// router refuses or that is not complete.
func passOn(raw []byte, method string, piece int) (out []byte, status int, ok bool) {
	var a Answer
	for {
		end := AnswerEnd(raw)
		if end < 0 {
			return nil, 0, false
		}
		var err error
		if out, err = a.Parse(raw[:end], nil); err != nil || a.Status == http.StatusSwitchingProtocols {
			return nil, 0, false
		}
		if raw = raw[end:]; a.Status >= http.StatusOK {
			break
		}
	}
	if method == http.MethodHead || a.Status == http.StatusNoContent || a.Status == http.StatusNotModified {
		return append(out, "\r\n"...), a.Status, true
	}
	if !a.Chunked && a.Length < 0 {
		out = append(out, "Connection: close\r\n"...)
	}
	out = append(out, "\r\n"...)
	var framing Chunks
	left := a.Length
	if left == 0 {
		return out, a.Status, true
	}
	for have := 0; have < len(raw); {
		upTo := min(len(raw), have+piece)
		part, used, done, err := a.Cut(raw[have:upTo], &left, &framing)
		if err != nil {
			return nil, 0, false
		}
		out = append(out, part...)
		if have += used; done {
			return out, a.Status, true
		}
	}
	return out, a.Status, a.Length < 0 && !a.Chunked // ends with the connection
}

// read returns a response as net/http reads it, with what follows it. It skips informational responses.
func read(t *testing.T, raw []byte, method string) (r *http.Response, body, rest []byte, err error) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(raw))
	for {
		if r, err = http.ReadResponse(in, &http.Request{Method: method}); err != nil {
			return nil, nil, nil, err
		}
		if r.StatusCode >= http.StatusOK {
			break
		}
	}
	defer r.Body.Close()
	if body, err = io.ReadAll(r.Body); err != nil {
		return nil, nil, nil, err
	}
	rest, err = io.ReadAll(in)
	return r, body, rest, err
}

// What the fast path passes on is a response that a client reads to its last byte, and as the server would have read
// the backend's. So no backend makes a client take a part of one response for another one.
func FuzzAnswer(f *testing.F) {
	for _, raw := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello, world",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\nHost: z\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200\r\n\r\nuntil the end",
		"HTTP/1.1 200 OK\nX: y\n z\nConnection: close, x-hop\nX-Hop: 1\n\nuntil the end",
		"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: Content-Length, Transfer-Encoding\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: transfer-encoding\r\n\r\n5 \r\nhello\r\n00\r\n\r\n",
		"HTTP/1.2 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nSet-Cookie: JSESSIONID=a\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add(raw, false, uint8(3))
		f.Add(raw, true, uint8(255))
	}
	f.Fuzz(func(t *testing.T, raw string, head bool, piece uint8) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		out, status, ok := passOn([]byte(raw), method, int(piece)+1)
		if !ok {
			return
		}
		got, gotBody, rest, err := read(t, out, method)
		if err != nil {
			t.Fatalf("%q is passed on as %q, which a client refuses: %s", raw, out, err)
		}
		if len(rest) > 0 || got.StatusCode != status {
			t.Fatalf("%q is passed on as %q, which a client reads as a %d and %q after it", raw, out, got.StatusCode, rest)
		}
		want, wantBody, _, err := read(t, []byte(raw), method)
		if err != nil {
			return // the server would have refused it
		}
		sameLength := head || want.ContentLength == got.ContentLength
		if want.StatusCode != status || !bytes.Equal(wantBody, gotBody) || !sameLength {
			t.Errorf("%q is passed on as %q: a %d with %q, and for the server a %d with %q", raw, out, status, gotBody,
				want.StatusCode, wantBody)
		}
		for name, values := range got.Header {
			// Obsolete folds may differ in the number of spaces.
			same := slices.EqualFunc(values, want.Header[name], func(a, b string) bool {
				return slices.Equal(strings.Fields(a), strings.Fields(b))
			})
			if !same && name != "Connection" && name != "Content-Length" {
				t.Errorf("%q is passed on as %q: %s is %q, and for the server %q", raw, out, name, values,
					want.Header[name])
			}
		}
		for name := range got.Trailer {
			if !AnswerTrailer([]byte(name)) || strings.EqualFold(name, "Connection") {
				t.Errorf("%q is passed on as %q with the trailer %s", raw, out, name)
			}
		}
	})
}
