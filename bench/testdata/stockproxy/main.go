// A stock reverse proxy of the standard library in front of one app. With a certificate it takes HTTP/2 with TLS, and
// passes on calls of gRPC with HTTP/2.
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 3 && len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: stockproxy LISTEN BACKEND [CERTIFICATE KEY]")
		os.Exit(2)
	}
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// With two idle connections, the default, it would open one for nearly every
	// request, which is unrealistic.
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 4096, 4096
	to := &url.URL{Scheme: "http", Host: os.Args[2]}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}}
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: proxy}
	if len(os.Args) == 5 {
		calls := transport.Clone()
		calls.Protocols = new(http.Protocols)
		calls.Protocols.SetUnencryptedHTTP2(true)
		through := *proxy
		through.Transport = calls
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Type") == "application/grpc" {
				through.ServeHTTP(w, r)
				return
			}
			proxy.ServeHTTP(w, r)
		})
		fmt.Fprintln(os.Stderr, s.ServeTLS(l, os.Args[3], os.Args[4]))
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, s.Serve(l))
	os.Exit(1)
}
