package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var tcpSection = Section{
	Name:  "tcp",
	About: "an app through a TCP route, compared with the app directly and haproxy in TCP mode",
	Run:   measureTCP,
}

const (
	haproxyGoal = 1 // share of haproxy's rate
	bigAnswer   = 1 << 20
)

func measureTCP(ctx context.Context, r *Report) (err error) {
	rounds, d := 6, 2*time.Second
	if r.Short {
		rounds, d = 1, time.Second
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	bits, err := newUpload(program, "tcp")
	if err != nil {
		return err
	}
	// One port of this machine that is free now.
	free, err := freePort(ctx)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(free)
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx, "--tcp-ports", port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	p.Memory = "512M"
	app, err := p.Push(ctx, "tcp", bits)
	defer func() { err = errors.Join(err, p.Remove(ctx, app)) }()
	if err != nil {
		return err
	}
	if err := p.mapTCP(ctx, app, port); err != nil {
		return err
	}
	direct, err := p.address(ctx, app)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(strings.TrimPrefix(p.API, "http://"))
	if err != nil {
		return err
	}
	all := []*peer{{name: "ingot", addr: net.JoinHostPort(host, port), pid: p.PID}, {name: "app", addr: direct}}
	ha, err := r.startTCPPeer(ctx, direct, app.Host)
	defer func() {
		if ha != nil {
			err = errors.Join(err, ha.stop())
		}
	}()
	if err != nil {
		return err
	}
	if ha != nil {
		all = append(all, ha)
	}
	if err := compareTCP(ctx, r, rounds, d, app.Host, all); err != nil {
		return err
	}
	p.noteEngine(r)
	r.Note("the best of %d rounds of %s each, in turn, on %d processors that all share with the app and the load. Ours "+
		"writes a line for each connection to the app's log, haproxy none.", rounds, d, runtime.NumCPU())
	return nil
}

// mapTCP gives an app a TCP route.
func (p *Platform) mapTCP(ctx context.Context, app *App, port string) error {
	var groups []struct {
		GUID string `json:"guid"`
	}
	if err := p.Do(ctx, "GET", "/routing/v1/router_groups", nil, &groups); err != nil {
		return err
	}
	if len(groups) == 0 {
		return errors.New("the server has no router group")
	}
	var made struct {
		GUID string `json:"guid"`
	}
	if err := p.Do(ctx, "POST", "/v3/domains", map[string]any{"name": "tcp.bench.test",
		"router_group": map[string]string{"guid": groups[0].GUID}}, &made); err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	both := relationship("space", p.space)
	both["domain"] = relationship("domain", made.GUID)["domain"]
	if err := p.Do(ctx, "POST", "/v3/routes", map[string]any{"port": number, "relationships": both}, &made); err != nil {
		return err
	}
	to := map[string]any{"destinations": []any{map[string]any{"app": map[string]string{"guid": app.GUID}}}}
	return p.Do(ctx, "POST", "/v3/routes/"+made.GUID+"/destinations", to, nil)
}

// compareTCP measures requests on open connections, new connections, and bytes.
func compareTCP(ctx context.Context, r *Report, rounds int, d time.Duration, host string, all []*peer) error {
	small := get(host, "/")
	once := []byte(strings.Replace(string(small), "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
	for _, kind := range []struct {
		name, unit string
		times      float64
		of         func(one *peer) Contender
	}{
		{"tcp, requests on 64 connections", "/s", 1, func(one *peer) Contender {
			return Load{Addr: one.addr, Requests: [][]byte{small}, Connections: 64, Duration: d, PID: one.pid}.Run
		}},
		{"tcp, new connections", "/s", 1, func(one *peer) Contender {
			return bare(16, d/2, func() error { return connectOnce(ctx, one.addr, once) })
		}},
		{"tcp, bytes on 8 connections", "MiB/s", bigAnswer / (1 << 20), func(one *peer) Contender {
			return Load{Addr: one.addr, Requests: [][]byte{get(host, "/?bytes="+strconv.Itoa(bigAnswer))}, Connections: 8,
				Duration: d, PID: one.pid}.Run
		}},
	} {
		var contenders []Contender
		for _, one := range all {
			contenders = append(contenders, kind.of(one))
		}
		best, err := bestOf(ctx, rounds, contenders...)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		for i, one := range all[1:] {
			f := Figure{Name: kind.name, Value: best[0].PerSecond * kind.times, Unit: kind.unit,
				Beside: &Beside{one.name, best[i+1].PerSecond * kind.times}}
			if one.name == nameHAProxy {
				f.Goal = ShareOf(haproxyGoal)
			}
			r.Add(f)
			if len(best[0].Latencies) > 0 && kind.times == 1 && kind.unit == "/s" {
				r.Add(Figure{
					Name: kind.name + ", p99", Value: millis(percentile(best[0].Latencies, 0.99)), Unit: "ms",
					Beside: &Beside{one.name, millis(percentile(best[i+1].Latencies, 0.99))},
				})
			}
		}
	}
	return nil
}

// connectOnce opens a connection for one request.
func connectOnce(ctx context.Context, addr string, request []byte) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := c.Write(request); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if err == nil && !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		err = fmt.Errorf("the answer is %.40q", answer)
	}
	return err
}

// startTCPPeer starts haproxy in TCP mode, or returns nil if it is not installed.
func (r *Report) startTCPPeer(ctx context.Context, app, host string) (*peer, error) {
	program, err := lookSbin("haproxy")
	if err != nil {
		r.Note("no comparison with haproxy: it is not installed (scripts/setup bench installs it).")
		return nil, nil //nolint:nilerr // it is optional
	}
	listen, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer("LISTEN", listen, "APP", app, "CPUS", strconv.Itoa(runtime.NumCPU())).Replace(`global
  maxconn 8192
  nbthread CPUS
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend front
  bind LISTEN
  default_backend app
backend app
  server app APP
`)
	file := filepath.Join(r.Scratch, "haproxy-tcp.cfg")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	p := &peer{name: nameHAProxy, addr: listen, exited: make(chan struct{})}
	p.cmd = exec.Command(program, "-db", "-q", "-f", file)
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
