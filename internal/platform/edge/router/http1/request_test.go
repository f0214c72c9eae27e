package http1

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// What the fast path takes, the server would have taken, and read in the same
// way. So no request makes it do what the server would not do.
func FuzzPlainHead(f *testing.F) {
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: a.b\r\n\r\n",
		"POST /x?y=%20 HTTP/1.1\r\nhost: a.b:80\r\nContent-Length: 12\r\nX: y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
		"GET //a/../b#c HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /% HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET http://x/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"CONNECT / HTTP/1.1\r\nHost: [::1]:1\r\n\r\n",
	} {
		f.Add(head)
	}
	f.Fuzz(func(t *testing.T, head string) {
		// The fast path gets a head up to the first empty line.
		before, _, found := strings.Cut(head, "\r\n\r\n")
		if !found {
			return
		}
		head = before + "\r\n\r\n"
		var q Request
		if !q.Parse([]byte(head), true) {
			return
		}
		method, target, host, length := q.Method.Of(head), q.Target.Of(head), q.Host.Of(head), q.Length
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil {
			t.Fatalf("%q is taken, and the server refuses it: %s", head, err)
		}
		if r.Method != method || r.RequestURI != target || r.Host != host || r.ContentLength != int64(length) ||
			len(r.TransferEncoding) > 0 || r.Header.Get("Upgrade") != "" {
			t.Errorf("%q is %s %s %s %d, and for the server %s %s %s %d", head, method, target, host, length, r.Method,
				r.RequestURI, r.Host, r.ContentLength)
		}
	})
}
