package brokertest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The user name and password of every broker.
const (
	Username = "broker-user"
	Password = "broker-password"
)

// The plans, by name and catalog id.
const (
	Sync    = "sync"    // free, done at once
	Paid    = "paid"    // not free, done at once
	Async   = "async"   // done after some polls
	Fails   = "fails"   // refuses to make instances
	Breaks  = "breaks"  // accepts instances, and fails later
	Garbage = "garbage" // makes instances and answers nonsense
)

// Request is one that the broker got.
type Request struct {
	Method, Path string
	Query        map[string]string
	Body         map[string]any
	Header       http.Header
}

// Operation names it: "provision", "bind", "last_operation" and so on.
func (r *Request) Operation() string {
	parts := strings.Split(strings.TrimPrefix(r.Path, "/v2/"), "/")
	switch {
	case parts[0] == "catalog":
		return "catalog"
	case parts[len(parts)-1] == "last_operation":
		return "last_operation"
	case len(parts) > 2:
		return map[string]string{http.MethodPut: "bind", http.MethodDelete: "unbind",
			http.MethodGet: "fetch_binding"}[r.Method]
	}
	return map[string]string{http.MethodPut: "provision", http.MethodPatch: "update", http.MethodDelete: "deprovision",
		http.MethodGet: "fetch"}[r.Method]
}

// Reply is an answer.
type Reply struct {
	Status int
	Body   any // a string is sent as it is
	Header map[string]string
}

// Instance is what the broker made.
type Instance struct {
	Plan       string
	Parameters map[string]any
	Bindings   map[string]map[string]any // parameters by id
}

// Broker is a broker. Its fields are set before it is used.
type Broker struct {
	URL string
	// Offering is the name and catalog id of what it offers; "fake" if empty.
	Offering string
	// Polls is how often an operation is in progress before it is done.
	Polls int
	// Hook is asked first, without any lock; nil answers as usual. Done is
	// whether the broker does what was asked nevertheless.
	Hook func(r *Request) (reply *Reply, done bool)
	// Change is applied to the catalog before it is sent.
	Change func(catalog map[string]any)

	mu        sync.Mutex
	instances map[string]*Instance
	pending   map[string]*pending // by operation
	requests  []*Request
	serial    int
}

// pending is an operation in progress.
type pending struct {
	polls  int
	finish func()
	fails  bool
}

// New starts a broker that ends with the test.
func New(t testing.TB, b *Broker) *Broker {
	t.Helper()
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.URL = server.URL
	return b
}

// Instances returns what there is.
func (b *Broker) Instances() map[string]Instance {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]Instance{}
	for id, i := range b.instances {
		out[id] = Instance{i.Plan, maps.Clone(i.Parameters), maps.Clone(i.Bindings)}
	}
	return out
}

// Bindings counts all bindings.
func (b *Broker) Bindings() (n int) {
	for _, i := range b.Instances() {
		n += len(i.Bindings)
	}
	return n
}

// Requests returns those of one operation, or all.
func (b *Broker) Requests(operation string) []*Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.requests), func(r *Request) bool {
		return operation != "" &&
			r.Operation() != operation
	})
}

// Drop forgets an instance, as if it was removed by other means.
func (b *Broker) Drop(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.instances, id)
}

// ServeHTTP implements http.Handler.
func (b *Broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if user != Username || password != Password {
		write(w, &Reply{Status: http.StatusUnauthorized, Body: map[string]any{}})
		return
	}
	if !strings.HasPrefix(r.Header.Get("X-Broker-Api-Version"), "2.") {
		write(w, &Reply{Status: http.StatusPreconditionFailed, Body: map[string]any{"description": "no version"}})
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	q := &Request{Method: r.Method, Path: r.URL.Path, Query: map[string]string{}, Header: r.Header}
	for k, v := range r.URL.Query() {
		q.Query[k] = v[0]
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &q.Body); err != nil {
			write(w, &Reply{Status: http.StatusBadRequest, Body: map[string]any{"description": err.Error()}})
			return
		}
	}
	b.mu.Lock()
	b.requests = append(b.requests, q)
	b.mu.Unlock()
	var said *Reply
	act := true
	if b.Hook != nil {
		if said, act = b.Hook(q); said == nil {
			act = true
		}
	}
	if act {
		if usual := b.answer(q); said == nil {
			said = usual
		}
	}
	write(w, said)
}

func write(w http.ResponseWriter, r *Reply) {
	for k, v := range r.Header {
		w.Header().Set(k, v)
	}
	if text, ok := r.Body.(string); ok {
		w.WriteHeader(r.Status)
		_, _ = io.WriteString(w, text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	_ = json.NewEncoder(w).Encode(r.Body)
}

func object(status int, kv ...any) *Reply {
	body := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		body[kv[i].(string)] = kv[i+1]
	}
	return &Reply{Status: status, Body: body}
}

func (b *Broker) answer(r *Request) *Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.instances == nil {
		b.instances, b.pending = map[string]*Instance{}, map[string]*pending{}
	}
	parts := strings.Split(strings.TrimPrefix(r.Path, "/v2/"), "/")
	if parts[0] == "catalog" {
		return b.catalog()
	}
	id := parts[1]
	switch r.Operation() {
	case "provision":
		return b.provision(id, r)
	case "update":
		return b.update(id, r)
	case "deprovision":
		return b.deprovision(id)
	case "fetch":
		if i := b.instances[id]; i != nil {
			return object(200, "service_id", b.offering(), "plan_id", i.Plan, "parameters", i.Parameters)
		}
		return object(404)
	case "bind":
		return b.bind(id, parts[3], r)
	case "unbind":
		return b.unbind(id, parts[3])
	case "fetch_binding":
		i := b.instances[id]
		if i == nil || i.Bindings[parts[3]] == nil {
			return object(404)
		}
		return &Reply{Status: 200, Body: b.credentials(id, parts[3])}
	case "last_operation":
		return b.poll(id, r)
	}
	return object(404)
}

func (b *Broker) offering() string {
	if b.Offering == "" {
		return "fake"
	}
	return b.Offering
}

func (b *Broker) catalog() *Reply {
	parameters := map[string]any{"parameters": map[string]any{
		"$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
		"properties": map[string]any{"size": map[string]any{"type": "integer", "minimum": 1}},
	}}
	var plans []any
	for _, name := range []string{Sync, Paid, Async, Fails, Breaks, Garbage} {
		plan := map[string]any{"id": name, "name": name, "description": "works: " + name, "free": name != Paid}
		if name == Sync {
			plan["schemas"] = map[string]any{"service_instance": map[string]any{"create": parameters, "update": parameters}}
			plan["maintenance_info"] = map[string]any{"version": "1.0.0", "description": "first"}
		}
		if name == Paid {
			plan["metadata"] = map[string]any{"costs": []any{map[string]any{"amount": map[string]any{"usd": 9.5},
				"unit": "MONTHLY"}}}
		}
		plans = append(plans, plan)
	}
	catalog := map[string]any{"services": []any{map[string]any{
		"id": b.offering(), "name": b.offering(), "description": "For tests", "bindable": true, "plan_updateable": true,
		"instances_retrievable": true, "bindings_retrievable": true, "tags": []any{"fake", "db"},
		"metadata": map[string]any{"shareable": true, "documentationUrl": "https://example.org/docs"}, "plans": plans,
	}}}
	if b.Change != nil {
		b.Change(catalog)
	}
	return &Reply{Status: 200, Body: catalog}
}

func (b *Broker) later(finish func(), fails bool) *Reply {
	b.serial++
	operation := fmt.Sprintf("operation-%d", b.serial)
	b.pending[operation] = &pending{polls: b.Polls, finish: finish, fails: fails}
	return object(202, "operation", operation, "dashboard_url", "https://example.org/dashboard")
}

func (b *Broker) provision(id string, r *Request) *Reply {
	plan, _ := r.Body["plan_id"].(string)
	parameters, _ := r.Body["parameters"].(map[string]any)
	made := &Instance{Plan: plan, Parameters: parameters, Bindings: map[string]map[string]any{}}
	if old := b.instances[id]; old != nil {
		if old.Plan != plan {
			return object(409, "description", "it is there with another plan")
		}
		return object(200)
	}
	switch plan {
	case Fails:
		return object(400, "description", "this plan never works")
	case Breaks:
		b.instances[id] = made
		return b.later(func() {}, true)
	case Garbage:
		b.instances[id] = made
		return &Reply{Status: 201, Body: "<html>no JSON</html>"}
	case Async:
		return b.later(func() { b.instances[id] = made }, false)
	}
	b.instances[id] = made
	return object(201, "dashboard_url", "https://example.org/dashboard")
}

func (b *Broker) update(id string, r *Request) *Reply {
	i := b.instances[id]
	if i == nil {
		return object(404, "description", "no such instance")
	}
	change := func() {
		if plan, _ := r.Body["plan_id"].(string); plan != "" {
			i.Plan = plan
		}
		if p, _ := r.Body["parameters"].(map[string]any); p != nil {
			i.Parameters = p
		}
	}
	if r.Body["plan_id"] == Async {
		return b.later(change, false)
	}
	if r.Body["plan_id"] == Fails {
		return object(422, "description", "not to this plan")
	}
	change()
	return object(200)
}

func (b *Broker) deprovision(id string) *Reply {
	i := b.instances[id]
	if i == nil {
		return object(410)
	}
	if len(i.Bindings) > 0 {
		return object(400, "description", "it has bindings")
	}
	if i.Plan == Async {
		return b.later(func() { delete(b.instances, id) }, false)
	}
	delete(b.instances, id)
	return object(200)
}

func (b *Broker) bind(id, binding string, r *Request) *Reply {
	i := b.instances[id]
	if i == nil {
		return object(404, "description", "no such instance")
	}
	parameters, _ := r.Body["parameters"].(map[string]any)
	if parameters == nil {
		parameters = map[string]any{}
	}
	if parameters["fail"] == true {
		return object(400, "description", "no such binding")
	}
	if i.Plan == Async {
		return b.later(func() { i.Bindings[binding] = parameters }, false)
	}
	status := 201
	if i.Bindings[binding] != nil {
		status = 200
	}
	i.Bindings[binding] = parameters
	return &Reply{Status: status, Body: b.credentials(id, binding)}
}

func (b *Broker) credentials(id, binding string) map[string]any {
	return map[string]any{
		"credentials": map[string]any{
			"uri": "postgresql://u-" + binding + ":secret@db.example:5432/" + id, "host": "db.example", "port": 5432,
			"database": id, "username": "u-" + binding, "password": "secret-" + binding,
		},
		"parameters": b.instances[id].Bindings[binding],
	}
}

func (b *Broker) unbind(id, binding string) *Reply {
	i := b.instances[id]
	if i == nil || i.Bindings[binding] == nil {
		return object(410)
	}
	if i.Plan == Async {
		return b.later(func() { delete(i.Bindings, binding) }, false)
	}
	delete(i.Bindings, binding)
	return object(200)
}

func (b *Broker) poll(id string, r *Request) *Reply {
	p := b.pending[r.Query["operation"]]
	switch {
	case p == nil:
		return object(410)
	case p.polls > 0:
		p.polls--
		return object(200, "state", "in progress", "description", "still at it")
	case p.fails:
		return object(200, "state", "failed", "description", "it broke")
	}
	p.finish()
	p.finish = func() {}
	return object(200, "state", "succeeded", "description", "done "+id)
}
