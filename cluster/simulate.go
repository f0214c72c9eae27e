//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// appsNamespace is the namespace of the Pods of apps.
const appsNamespace = "ingot-apps"

// A simulation is one node without containers. It does to its Pods what a kubelet does, as
// seen by the API server: they run and are ready as soon as they are bound, and are gone
// when they are deleted. It also is the agent of each, at an address of loopback.
//
// One of the nodes is the scheduler too: it binds the Pods in turn to all of them. There is
// neither a scheduler nor a node object, so that what is measured is the API server and its
// clients.
type simulation struct {
	api   *apiClient
	node  string
	first byte // of the second part of the addresses of Pods
	farm  *farm
	slots chan struct{} // one for each request in progress
	takes time.Duration // from a binding until its container runs

	mu    sync.Mutex
	known map[string]string // addresses of Pods, by uid
	last  int
}

// simulate runs a node, which is also the scheduler if it is to schedule to nodes. It writes
// the number of its open streams and of launched instances to the standard output when they
// have changed.
func simulate(ctx context.Context, kubeconfig, node string, schedule []string, takes time.Duration) error {
	api, err := newAPIClient(kubeconfig)
	if err != nil {
		return err
	}
	_, digits, _ := strings.Cut(node, "-")
	number, err := strconv.Atoi(digits)
	if err != nil || number > 60 {
		return fmt.Errorf("node %q: want a name such as sim-0", node)
	}
	s := &simulation{api: api, node: node, first: byte(128 + number), farm: newFarm(ctx), slots: make(chan struct{}, 32),
		takes: takes, known: map[string]string{}}
	defer s.farm.close()
	var work sync.WaitGroup
	work.Go(func() { s.follow(ctx, "spec.nodeName="+node, s.run) })
	if len(schedule) > 0 {
		next := 0
		work.Go(func() {
			s.follow(ctx, "spec.nodeName=", func(ctx context.Context, p *simPod) {
				next++ // one goroutine calls it
				to := schedule[next%len(schedule)]
				s.spawn(func() { s.bind(ctx, p, to) })
			})
		})
	}
	s.report(ctx)
	work.Wait()
	return nil
}

// report writes the numbers until ctx ends.
func (s *simulation) report(ctx context.Context) {
	var before string
	for ctx.Err() == nil {
		now := fmt.Sprintln(s.farm.streams.Load(), s.farm.launched.Load())
		if now != before {
			_, _ = os.Stdout.WriteString(now) // the reader is gone
			before = now
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// spawn runs f when a slot is free.
func (s *simulation) spawn(f func()) {
	s.slots <- struct{}{}
	go func() {
		defer func() { <-s.slots }()
		f()
	}()
}

// simPod is what a node knows of a Pod.
type simPod struct {
	Metadata struct {
		Name, UID         string
		DeletionTimestamp *string
	}
	Spec struct {
		NodeName   string
		Containers []struct {
			Image string
			Env   []struct{ Name, Value string }
		}
	}
	Status struct{ PodIP string }
}

// follow calls f for each new state of the Pods that a field selector selects.
func (s *simulation) follow(ctx context.Context, fields string, f func(context.Context, *simPod)) {
	q := url.Values{"watch": {"1"}, "fieldSelector": {fields}}
	for ctx.Err() == nil {
		err := s.api.watch(ctx, "/api/v1/namespaces/"+appsNamespace+"/pods?"+q.Encode(), func(kind string, p *simPod) {
			if kind == "ADDED" || kind == "MODIFIED" {
				f(ctx, p)
			}
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			fmt.Fprintln(os.Stderr, "simulate:", err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func podPath(p *simPod, sub string) string {
	return "/api/v1/namespaces/" + appsNamespace + "/pods/" + p.Metadata.Name + sub
}

// bind places a Pod on a node.
func (s *simulation) bind(ctx context.Context, p *simPod, node string) {
	s.check(s.api.send(ctx, http.MethodPost, podPath(p, "/binding"), "application/json", map[string]any{
		"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": p.Metadata.Name, "uid": p.Metadata.UID},
		"target": map[string]any{"kind": "Node", "name": node},
	}))
}

// check reports an error of a request, unless the Pod has changed meanwhile.
func (s *simulation) check(err error) {
	if err != nil && !strings.Contains(err.Error(), "404") && !strings.Contains(err.Error(), "409") &&
		!errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "simulate:", err)
	}
}

// run makes a bound Pod run, or removes one that is deleted.
func (s *simulation) run(ctx context.Context, p *simPod) {
	if p.Metadata.DeletionTimestamp != nil {
		s.mu.Lock()
		ip := s.known[p.Metadata.UID]
		delete(s.known, p.Metadata.UID)
		s.mu.Unlock()
		s.farm.forget(ip)
		s.spawn(func() {
			s.check(s.api.send(ctx, http.MethodDelete, podPath(p, "?gracePeriodSeconds=0"), "", nil))
		})
		return
	}
	s.mu.Lock()
	ip, known := s.known[p.Metadata.UID]
	if !known {
		ip = p.Status.PodIP // of an earlier process
		if ip == "" {
			s.last++
			ip = fmt.Sprintf("127.%d.%d.%d", s.first, s.last/250, 1+s.last%250)
		}
		s.known[p.Metadata.UID] = ip
	}
	s.mu.Unlock()
	if known {
		return
	}
	begin := func() {
		if err := s.farm.learn(ip, p); err != nil {
			fmt.Fprintln(os.Stderr, "simulate:", err)
			return
		}
		if p.Status.PodIP == "" {
			s.check(s.api.send(ctx, http.MethodPatch, podPath(p, "/status"), "application/merge-patch+json", running(p, ip)))
		}
	}
	time.AfterFunc(s.takes, func() { s.spawn(begin) })
}

// running is the status of a Pod that runs and is ready.
func running(p *simPod, ip string) map[string]any {
	now := time.Now().UTC().Format(time.RFC3339)
	var conditions []map[string]any
	for _, kind := range []string{"PodScheduled", "Initialized", "ContainersReady", "Ready"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "lastTransitionTime": now})
	}
	return map[string]any{"status": map[string]any{
		"phase": "Running", "podIP": ip, "podIPs": []map[string]any{{"ip": ip}}, "hostIP": "127.0.0.1", "startTime": now,
		"conditions": conditions,
		"containerStatuses": []map[string]any{{
			"name": "app", "ready": true, "started": true, "restartCount": 0, "image": p.Spec.Containers[0].Image,
			"imageID": "", "state": map[string]any{"running": map[string]any{"startedAt": now}},
		}},
	}}
}

// apiClient calls the API server with the certificate of a kubeconfig.
type apiClient struct {
	http   *http.Client
	server string
}

// newAPIClient reads a kubeconfig that this program has written.
func newAPIClient(kubeconfig string) (*apiClient, error) {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server    string
				Authority string `json:"certificate-authority"`
			}
		}
		Users []struct {
			User struct {
				Certificate string `json:"client-certificate"`
				Key         string `json:"client-key"`
			}
		}
	}
	text, err := os.ReadFile(kubeconfig)
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		return nil, err
	}
	if len(config.Clusters) != 1 || len(config.Users) != 1 {
		return nil, errors.New(kubeconfig + " is not from a cluster of this program")
	}
	authority, err := os.ReadFile(config.Clusters[0].Cluster.Authority)
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(config.Users[0].User.Certificate, config.Users[0].User.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &apiClient{
		http: &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS12}}},
		server: config.Clusters[0].Cluster.Server,
	}, nil
}

func (a *apiClient) do(ctx context.Context, method, path, kind string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, a.server+path, body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	response, err := a.http.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10)) // part of a message
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return response, nil
}

// send sends a request with an object.
func (a *apiClient) send(ctx context.Context, method, path, kind string, object any) error {
	var body io.Reader = http.NoBody
	if object != nil {
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	response, err := a.do(ctx, method, path, kind, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body) // so that the connection can be used again
	return err
}

// watch calls f for each event until the API server ends the watch.
func (a *apiClient) watch(ctx context.Context, path string, f func(kind string, p *simPod)) error {
	response, err := a.do(ctx, http.MethodGet, path, "", http.NoBody)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for events := json.NewDecoder(response.Body); ; {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		var p simPod
		if err := events.Decode(&e); err != nil {
			return err
		}
		if e.Type == "ERROR" {
			return fmt.Errorf("the watch ended: %s", e.Object)
		}
		if err := json.Unmarshal(e.Object, &p); err != nil {
			return err
		}
		f(e.Type, &p)
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
