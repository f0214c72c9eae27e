//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

var (
	kills     = flag.Int("kills", 3, "how many servers are killed while apps write lines")
	killEvery = flag.Duration("kill-every", 15*time.Second, "the time between these kills")
	away      = flag.Duration("away", 30*time.Second, "how long PostgreSQL is away")
)

// TestServers measures three servers on a cluster. What was lost, written twice or
// failed is checked; times are only reported.
func TestServers(t *testing.T) { //nolint:tparallel // one part after another, on the same servers
	t.Parallel()
	s := install(t)
	for _, one := range []struct { //nolint:paralleltest // see above
		name string
		test func(*testing.T, *site)
	}{
		{"Doctor", doctor},
		{"Push", push},
		{"Start", starts},
		{"Tail", tails},
		{"Prompt", prompts},
		{"Lines", lines},
		{"KillServer", killServer},
		{"DrainNode", drainNode},
		{"Upgrade", upgrade},
		{"DatabaseAway", databaseAway},
		{"KillNode", killNode}, // last: the node does not come back
	} {
		t.Run(one.name, func(t *testing.T) { one.test(t, s) })
	}
}

// doctor runs the checks of ingot doctor where a server runs.
func doctor(t *testing.T, s *site) {
	out := string(kubectl(t, "", "--namespace", systemNamespace, "exec", "deployment/ingot", "--",
		"/ingot/ingot", "doctor"))
	for _, step := range []string{"database", "bucket", "API server", "rights", "Pod Security", "trial Pod"} {
		if !regexp.MustCompile(`(?m)^ok +` + step + ` `).MatchString(out) {
			t.Errorf("ingot doctor printed no ok for %q:\n%s", step, out)
		}
	}
	s.report.add("`ingot doctor` in a server's Pod", "no step fails", fmt.Sprintf("%d ok", strings.Count(out, "\nok ")))
}

// push pushes small apps.
func push(t *testing.T, s *site) {
	var took []time.Duration
	for i := range 3 {
		began := time.Now()
		a := s.push(t, fmt.Sprintf("small-%d", i), 0)
		took = append(took, time.Since(began))
		if why := visit(caller, "http://"+s.balancer.address, a.host); why != "" {
			t.Errorf("%s after the push: %s", a.name, why)
		}
	}
	for i := range 3 {
		s.cf(t, "delete", "-f", "-r", fmt.Sprintf("small-%d", i))
	}
	s.report.add("`cf push` of a small app, 3 times", "≤ 15 s", fmt.Sprintf("%s, %s, %s", seconds(took[0]),
		seconds(took[1]), seconds(took[2])))
}

// starts starts instances of an app with a large droplet, one by one and together.
func starts(t *testing.T, s *site) {
	const together = 20
	a := s.push(t, "starter", 10<<20)
	token := s.token(t)
	scale := func(n int) time.Duration {
		t.Helper()
		began := time.Now()
		if err := s.call(t.Context(), token, "", http.MethodPost, "/v3/apps/"+a.guid+"/processes/web/actions/scale",
			object{"instances": n}, nil); err != nil {
			t.Fatal(err)
		}
		s.until(t, fmt.Sprintf("%d running instances", n), func() bool { return s.running(token, a.guid) == n })
		return time.Since(began)
	}
	var took []time.Duration
	for n := 2; n <= together; n++ {
		took = append(took, scale(n))
	}
	s.report.add(fmt.Sprintf("start to healthy, 10 MiB droplet, %d times", len(took)), "p50 ≤ 1.8 s, p95 ≤ 3.5 s",
		fmt.Sprintf("p50 %s, p95 %s", seconds(percentile(took, 0.5)), seconds(percentile(took, 0.95))))
	s.cf(t, "stop", "starter")
	s.until(t, "end of all instances", func() bool { return len(s.instances(t, a.guid)) == 0 })
	began := time.Now()
	if err := s.call(t.Context(), token, "", http.MethodPost, "/v3/apps/"+a.guid+"/actions/start", nil, nil); err != nil {
		t.Fatal(err)
	}
	s.until(t, "all instances", func() bool { return s.running(token, a.guid) == together })
	s.report.add(fmt.Sprintf("%d instances at once", together), "≤ 12 s", seconds(time.Since(began)))
	s.cf(t, "delete", "-f", "-r", "starter")
	s.until(t, "end of all instances", func() bool { return len(s.instances(t, a.guid)) == 0 })
}

// tails measures how long a line takes to a tail on a server that does not work on the
// app.
func tails(t *testing.T, s *site) {
	a := s.push(t, "talker", 0)
	_, owner := s.owner(t, shardOf(a.guid))
	servers, err := s.servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	delete(servers, owner)
	const each = 100
	var mu sync.Mutex
	var took []time.Duration
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	token := s.token(t)
	var work sync.WaitGroup
	connected := make(chan struct{}, len(servers))
	for _, ip := range servers {
		work.Go(func() {
			n := 0
			err := s.follow(ctx, token, net.JoinHostPort(ip, "8080"), a.guid, "", connected, func(l line) bool {
				if !strings.HasPrefix(l.text, "mark ") {
					return true
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(l.at))
				n++
				return n < each
			})
			if err != nil {
				t.Errorf("tail at %s: %v", ip, err)
			}
		})
	}
	for range servers {
		<-connected
	}
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for i := range each {
		if _, err := get(ctx, "http://"+s.balancer.address+"/stdout?text=mark+"+strconv.Itoa(i), a.host); err != nil {
			t.Fatal(err)
		}
		<-tick.C
	}
	work.Wait()
	s.report.add(fmt.Sprintf("line to a tail on another server, %d times", len(took)), "p50 ≤ 150 ms, p99 ≤ 500 ms",
		fmt.Sprintf("p50 %s, p99 %s", millis(percentile(took, 0.5)), millis(percentile(took, 0.99))))
	s.cf(t, "delete", "-f", "-r", "talker")
}

// get sends a request and returns the body of its response.
func get(ctx context.Context, url, host string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Host = host
	response, err := caller.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}

// shardOf returns the name of the lease of an app's shard.
func shardOf(app string) string {
	h := fnv.New32a()
	h.Write([]byte(app))
	return fmt.Sprintf("shard-%02d", h.Sum32()%allShards)
}

// A line of an app's log.
type line struct {
	id, text string
	at       time.Time
}

// follow reads a live tail until each returns false. after is the last line that was
// seen; "" means that there is none.
func (s *site) follow(ctx context.Context, token, address, app, after string, connected chan<- struct{},
	each func(line) bool) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/tail/"+app+
		"?source_types=APP/PROC/WEB", http.NoBody)
	if err != nil {
		return err
	}
	r.Host = s.balancer.address
	r.Header.Set("Authorization", token)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	response, err := caller.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	if connected != nil {
		connected <- struct{}{}
	}
	var id, event string
	for text := bufio.NewScanner(response.Body); text.Scan(); {
		name, value, _ := strings.Cut(text.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			event = value
		case "data":
			if event != "" {
				return fmt.Errorf("%s: %s", event, value)
			}
			l, err := parseLine(id, value)
			if err != nil {
				return err
			}
			if !each(l) {
				return nil
			}
		}
	}
	return io.ErrUnexpectedEOF
}

func parseLine(id, envelope string) (line, error) {
	var e struct {
		Timestamp string
		Log       struct{ Payload string }
	}
	if err := json.Unmarshal([]byte(envelope), &e); err != nil {
		return line{}, err
	}
	nanoseconds, err := strconv.ParseInt(e.Timestamp, 10, 64)
	if err != nil {
		return line{}, err
	}
	text, err := base64.StdEncoding.DecodeString(e.Log.Payload)
	return line{id, string(text), time.Unix(0, nanoseconds)}, err
}

// prompts opens shells through every server.
func prompts(t *testing.T, s *site) {
	a := s.push(t, "shell", 0)
	servers, err := s.servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token := s.token(t)
	var processes struct{ Resources []struct{ GUID string } }
	if err := s.call(t.Context(), token, "", http.MethodGet, "/v3/apps/"+a.guid+"/processes", nil,
		&processes); err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for range 5 {
		for _, ip := range servers {
			code := strings.TrimSpace(s.cf(t, "ssh-code"))
			began := time.Now()
			if err := prompt(net.JoinHostPort(ip, "2222"), "cf:"+processes.Resources[0].GUID+"/0", code); err != nil {
				t.Fatalf("ssh to %s: %v", ip, err)
			}
			took = append(took, time.Since(began))
		}
	}
	s.report.add(fmt.Sprintf("ssh prompt through any server, %d times", len(took)), "p50 ≤ 300 ms",
		fmt.Sprintf("p50 %s, p95 %s", millis(percentile(took, 0.5)), millis(percentile(took, 0.95))))
	s.cf(t, "delete", "-f", "-r", "shell")
}

// prompt connects and waits for the prompt of a shell.
func prompt(address, user, code string) error {
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.Password(code)}, //nolint:gosec // a test
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: patience,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	out, err := session.StdoutPipe()
	if err == nil {
		err = session.RequestPty("xterm", 24, 80, ssh.TerminalModes{})
	}
	if err == nil {
		err = session.Shell()
	}
	for b, seen := make([]byte, 1<<10), ""; err == nil && !strings.Contains(seen, "$ "); {
		var n int
		n, err = out.Read(b)
		seen += string(b[:n])
	}
	return err
}

// numbers collects the numbered lines of an app's instances.
type numbers struct {
	mu    sync.Mutex
	seen  map[string][]int // by instance, in the order of arrival
	last  string           // the id of the last line
	fatal error
}

// collect reads a tail, which is opened again through the balancer when its server is
// gone.
func (s *site) collect(ctx context.Context, token, app string) *numbers {
	n := &numbers{seen: map[string][]int{}, last: "0"}
	go func() {
		for ctx.Err() == nil {
			n.mu.Lock()
			last := n.last
			n.mu.Unlock()
			err := s.follow(ctx, token, s.balancer.address, app, last, nil, func(l line) bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.last = l.id
				if fields := strings.Fields(l.text); len(fields) == 3 && fields[0] == "number" {
					i, _ := strconv.Atoi(fields[2])
					n.seen[fields[1]] = append(n.seen[fields[1]], i)
				}
				return true
			})
			if err != nil && strings.HasPrefix(err.Error(), "missed") {
				n.mu.Lock()
				n.fatal = err
				n.mu.Unlock()
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return n
}

// count returns how many different numbers up to a limit an instance has written, and
// how many came twice.
func (n *numbers) count(instance string, limit int) (once, twice int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := map[int]bool{}
	for _, i := range n.seen[instance] {
		switch {
		case found[i]:
			twice++
		case i <= limit:
			once++
		}
		found[i] = true
	}
	return once, twice
}

// lines has apps that write 2,000 lines a second while servers are killed.
func lines(t *testing.T, s *site) {
	const apps, instances = 2, 4
	var all []app
	for i := range apps {
		name := fmt.Sprintf("writer-%d", i)
		all = append(all, s.push(t, name, 0, "--no-start"))
		s.cf(t, "set-env", name, "NUMBERS", "4ms")
		s.cf(t, "scale", name, "-i", strconv.Itoa(instances))
	}
	token := s.token(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var collected []*numbers
	for _, a := range all {
		s.cf(t, "start", a.name)
		collected = append(collected, s.collect(ctx, token, a.guid))
	}
	began := time.Now()
	pods := map[string]bool{}
	for i := range *kills {
		pause(ctx, *killEvery)
		_, pod := s.owner(t, shardOf(all[i%apps].guid))
		s.kill(t, pod)
		pods[pod] = true
	}
	pause(ctx, *killEvery)
	ran := time.Since(began)

	// What each instance has written until now has to arrive.
	written, lost, twice := 0, 0, 0
	wanted := map[string]int{}
	for i, a := range all {
		found := s.instances(t, a.guid)
		if len(found) != instances {
			t.Errorf("%s has %d instances, want %d: none was restarted", a.name, len(found), instances)
		}
		for _, p := range found {
			body, err := get(ctx, "http://"+p.Status.PodIP+":8080/where", "")
			var at struct{ Number int }
			if err == nil {
				err = json.Unmarshal(body, &at)
			}
			if err != nil {
				t.Fatal(err)
			}
			guid := p.Labels["ingot.dev/instance"]
			wanted[guid] = at.Number
			written += at.Number
			eventually(patience, func() bool {
				once, _ := collected[i].count(guid, at.Number)
				return once >= at.Number
			})
			once, again := collected[i].count(guid, at.Number)
			lost += at.Number - once
			twice += again
		}
	}
	for _, n := range collected {
		if n.fatal != nil {
			t.Error(n.fatal)
		}
		for guid := range n.seen {
			if _, ok := wanted[guid]; !ok {
				t.Errorf("lines of the instance %s, which is not one of %v: an instance was replaced", guid, wanted)
			}
		}
	}
	if lost > 0 || twice > 0 {
		t.Errorf("of %d lines %d are lost and %d came twice, want none", written, lost, twice)
	}
	s.report.add(fmt.Sprintf("%.0f lines/s of apps, %d kills of servers in %s", float64(written)/ran.Seconds(), *kills,
		seconds(ran)), "0 lost, 0 twice",
		fmt.Sprintf("%d lines, %d lost, %d twice", written, lost, twice))
	for _, a := range all {
		s.cf(t, "delete", "-f", "-r", a.name)
	}
	s.awaitServers(t, 3)
}
