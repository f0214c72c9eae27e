package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// The names of the proxies that the router is compared with.
const (
	nameApp     = "app" // without a proxy
	nameStock   = "stock ReverseProxy"
	nameNginx   = "nginx"
	nameHAProxy = "haproxy"
)

// peer is a proxy in front of the same app, or the app itself.
type peer struct {
	name, addr string
	pid        int
	tls        *tls.Config // nil without TLS
	sessions   tls.ClientSessionCache

	cmd    *exec.Cmd
	exited chan struct{}
	says   bytes.Buffer
}

// startPeers starts each installed proxy with its own configuration, and waits
// until it responds.
func (r *Report) startPeers(ctx context.Context, app, host string) (all []*peer, err error) {
	stock := filepath.Join(r.Scratch, "stockproxy")
	if err := goBuild(ctx, moduleDir(), "-s -w", stock, "./testdata/stockproxy"); err != nil {
		return nil, err
	}
	for _, kind := range []peerKind{
		{nameStock, stock, func(_, listen, app string) []string { return []string{listen, app} }, nil},
		{nameNginx, "nginx", nginxConfig, nil},
		{nameHAProxy, "haproxy", haproxyConfig, nil},
	} {
		p, err := r.startPeer(ctx, kind, app, host)
		if p != nil {
			all = append(all, p)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// peerKind is a proxy that can be started.
type peerKind struct {
	name, program string
	configure     func(dir, listen, app string) []string
	tls           *tls.Config
}

// startPeer starts a proxy and waits until it responds. It returns nil if it is not
// installed.
func (r *Report) startPeer(ctx context.Context, kind peerKind, app, host string) (*peer, error) {
	program, err := lookSbin(kind.program)
	if err != nil {
		r.Note("no comparison with %s: it is not installed (scripts/setup bench installs it).", kind.name)
		return nil, nil //nolint:nilnil,nilerr // the note says it
	}
	listen, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.Scratch, filepath.Base(program)+".d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	args := kind.configure(dir, listen, app)
	if len(args) == 0 {
		return nil, fmt.Errorf("the configuration of %s could not be written", kind.name)
	}
	p := &peer{name: kind.name, addr: listen, tls: kind.tls, sessions: tls.NewLRUClientSessionCache(0),
		exited: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.says, &p.says
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	err = p.await(ctx, host)
	return p, err
}

// lookSbin searches PATH and the directories for administrators.
func lookSbin(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}

func (p *peer) await(ctx context.Context, host string) error {
	err := poll(ctx, pollEvery, p.name, func() (bool, error) {
		select {
		case <-p.exited:
			return false, fmt.Errorf("it ended: %s", bytes.TrimSpace(p.says.Bytes()))
		default:
		}
		w, err := dialWith(ctx, p.addr, p.tls)
		if err != nil {
			return false, nil // not yet
		}
		defer w.conn.Close()
		status, err := w.do(get(host, "/"))
		return status == http.StatusOK, err
	})
	return err
}

func (p *peer) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return nil
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("%s did not stop within %s", p.name, patience), p.cmd.Process.Kill())
	}
}

func nginxConfig(dir, listen, app string) []string {
	text := strings.NewReplacer("DIR", dir, "LISTEN", listen, "APP", app, "CPUS", fmt.Sprint(runtime.NumCPU())).Replace(`daemon off;
worker_processes CPUS;
worker_rlimit_nofile 16384;
pid DIR/nginx.pid;
error_log stderr error;
events { worker_connections 8192; }
http {
  access_log DIR/access.log combined buffer=64k;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
  keepalive_requests 100000000;
  upstream app {
    server APP;
    keepalive 2048;
    keepalive_requests 100000000;
  }
  server {
    listen LISTEN backlog=4096;
    location / {
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Request-Id $request_id;
    }
    location /echo {
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection "upgrade";
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Host $http_host;
    }
  }
}
`)
	file := filepath.Join(dir, "nginx.conf")
	if os.WriteFile(file, []byte(text), 0o644) != nil {
		return nil
	}
	return []string{"-p", dir, "-e", "stderr", "-c", file}
}

func haproxyConfig(dir, listen, app string) []string {
	text := strings.NewReplacer("LISTEN", listen, "APP", app, "CPUS", fmt.Sprint(runtime.NumCPU())).Replace(`global
  maxconn 16384
  nbthread CPUS
defaults
  mode http
  timeout connect 5s
  timeout client 2m
  timeout server 15m
  option http-keep-alive
  option forwardfor
  http-reuse always
frontend front
  bind LISTEN
  default_backend app
backend app
  server app APP maxconn 4096
`)
	file := filepath.Join(dir, "haproxy.cfg")
	if os.WriteFile(file, []byte(text), 0o644) != nil {
		return nil
	}
	return []string{"-db", "-q", "-f", file}
}
