package check_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

type object = map[string]any

// toy is a broker in memory that can have one fault.
type toy struct {
	async bool
	fault string

	mu        sync.Mutex
	instances map[string]*toyInstance
	removed   map[string]bool
	catalogs  int
}

type toyInstance struct {
	plan  string
	polls int // number of polls until it is ready

	deleting bool
	bindings map[string]string // app by id
}

func (b *toy) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.instances)
}

func (b *toy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.instances == nil {
		b.instances, b.removed = map[string]*toyInstance{}, map[string]bool{}
	}
	if id := r.Header.Get("X-Broker-API-Request-Identity"); id != "" && b.fault != "no identity" {
		w.Header().Set("X-Broker-API-Request-Identity", id)
	}
	user, password, ok := r.BasicAuth()
	open := b.fault == "any password" || b.fault == "any password for changes" && r.Method != http.MethodGet
	version := r.Header.Get("X-Broker-API-Version")
	switch {
	case b.fault != "no auth" && (!ok || user != "u" || !open && password != "p"):
		b.write(w, http.StatusUnauthorized, object{})
	case version == "" && b.fault != "no version", version != "" && !strings.HasPrefix(version, "2.") &&
		b.fault != "any version":
		b.write(w, http.StatusPreconditionFailed, object{"description": "2.x"})
	case r.Header.Get("X-Broker-API-Originating-Identity") == "nonsense" && b.fault == "broken by identity":
		b.write(w, http.StatusInternalServerError, object{})
	default:
		status, body := b.route(r)
		b.write(w, status, body)
	}
}

func (b *toy) write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	if b.fault == "text content" {
		w.Header().Set("Content-Type", "text/plain")
	}
	w.WriteHeader(status)
	if b.fault == "provision no body" && status == http.StatusCreated {
		return
	}
	_ = json.NewEncoder(w).Encode(body)
}

func (b *toy) route(r *http.Request) (int, any) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	body := object{}
	text, _ := io.ReadAll(r.Body)
	bad := len(text) > 0 && json.Unmarshal(text, &body) != nil
	poll := parts[len(parts)-1] == "last_operation"
	switch {
	case len(parts) == 2 && parts[1] == "catalog":
		return http.StatusOK, b.catalog()
	case len(parts) == 4 && poll:
		return b.poll(parts[2])
	case len(parts) == 3:
		return b.instance(r, parts[2], body, bad)
	case len(parts) == 5:
		return b.binding(r, parts[2], parts[4], body, bad)
	}
	return http.StatusNotFound, object{}
}

func (b *toy) catalog() any {
	b.catalogs++
	plans := []object{
		{"id": "plan-1", "name": "one", "description": "first", "maximum_polling_duration": 60,
			"maintenance_info": object{"version": "1.0.0"},
			"schemas": object{"service_instance": object{
				"create": object{"parameters": object{"$schema": "http://json-schema.org/draft-04/schema#"}}}}},
		{"id": "plan-2", "name": "two", "description": "second", "free": false},
	}
	s := object{
		"id": "service-1", "name": "toy", "description": "a toy", "bindable": true, "plan_updateable": true,
		"instances_retrievable": true, "bindings_retrievable": true, "requires": []string{"syslog_drain"},
	}
	services := []object{s}
	switch b.fault {
	case "catalog is a list":
		return []object{s}
	case "catalog text port":
		s["bindable"] = "yes"
	case "catalog no bindable":
		delete(s, "bindable")
	case "catalog same service":
		s["plans"] = plans
		services = append(services, s)
	case "catalog no plans":
		plans = []object{}
	case "catalog bad permission":
		s["requires"] = []string{"everything"}
	case "catalog no description":
		plans[1]["description"] = ""
	case "catalog same plan id":
		plans[1]["id"] = "plan-1"
	case "catalog bad maintenance":
		plans[0]["maintenance_info"] = object{"version": "newest"}
	case "catalog bad polling":
		plans[0]["maximum_polling_duration"] = -1
	case "catalog bad schema":
		plans[0]["schemas"] = object{"service_binding": object{"create": object{"parameters": object{"type": "object"}}}}
	case "catalog new ids":
		plans[1]["id"] = fmt.Sprintf("plan-2-%d", b.catalogs)
	}
	s["plans"] = plans
	return object{"services": services}
}

func (b *toy) poll(id string) (int, any) {
	i := b.instances[id]
	if i == nil {
		if b.fault == "poll unknown" {
			return http.StatusOK, object{"state": "succeeded"}
		}
		return http.StatusGone, object{}
	}
	if i.polls > 0 {
		i.polls--
		if b.fault == "async state" {
			return http.StatusOK, object{"state": "nearly"}
		}
		if i.polls > 0 {
			return http.StatusOK, object{"state": "in progress"}
		}
	}
	if i.deleting {
		delete(b.instances, id)
		b.removed[id] = true
		return http.StatusGone, object{}
	}
	if b.fault == "async fails" {
		return http.StatusOK, object{"state": "failed", "description": "no"}
	}
	return http.StatusOK, object{"state": "succeeded"}
}

// lacks reports whether a body is invalid, unless the fault is to accept it.
func (b *toy) lacks(what string, body object, bad bool) bool {
	missing := func(field, fault string) bool {
		s, _ := body[field].(string)
		return s == "" && b.fault != what+" "+fault
	}
	return bad && b.fault != what+" bad json" || !bad && (missing("service_id", "no service") ||
		missing("plan_id", "no plan"))
}

func (b *toy) refuse() (int, any) {
	if b.fault == "empty description" {
		return http.StatusBadRequest, object{"description": ""}
	}
	return http.StatusBadRequest, object{"description": "no"}
}

func (b *toy) instance(r *http.Request, id string, body object, bad bool) (int, any) {
	i := b.instances[id]
	incomplete := r.FormValue("accepts_incomplete") == "true"
	planID, _ := body["plan_id"].(string)
	known := planID == "plan-1" || planID == "plan-2"
	switch r.Method {
	case http.MethodPut:
		switch {
		case b.lacks("provision", body, bad),
			!bad && body["service_id"] != "service-1" && b.fault != "provision unknown service" &&
				b.fault != "provision no service",
			!bad && !known && b.fault != "provision unknown plan" && b.fault != "provision no plan":
			return b.refuse()
		}
		return b.provision(i, id, planID, incomplete)
	case http.MethodGet:
		return b.fetch(i, id)
	case http.MethodPatch:
		switch {
		case i == nil:
			return http.StatusNotFound, object{}
		case body["service_id"] == nil && b.fault != "update no service", !known && b.fault != "update unknown plan":
			return b.refuse()
		case known && b.fault != "update nothing":
			i.plan = planID
		}
		return http.StatusOK, object{}
	}
	return b.deprovision(r, i, id)
}

func (b *toy) provision(i *toyInstance, id, planID string, incomplete bool) (int, any) {
	operation := object{"operation": "op"}
	switch {
	case i != nil && i.plan != planID && b.fault != "provision no conflict":
		return http.StatusConflict, object{}
	case i != nil && i.polls > 0 && b.fault == "async again 200":
		return http.StatusOK, object{}
	case i != nil && i.polls > 0 && b.fault == "async other operation":
		return http.StatusAccepted, object{"operation": "other"}
	case i != nil && i.polls > 0:
		return http.StatusAccepted, operation
	case i != nil && b.fault == "provision again 201":
		return http.StatusCreated, object{}
	case i != nil:
		return http.StatusOK, object{}
	case b.async && !incomplete && b.fault == "async without error":
		return http.StatusUnprocessableEntity, object{"error": "Nope"}
	case b.async && !incomplete && b.fault != "async unwanted":
		return http.StatusUnprocessableEntity, object{"error": "AsyncRequired", "description": "later"}
	}
	i = &toyInstance{plan: planID, bindings: map[string]string{}}
	b.instances[id] = i
	delete(b.removed, id)
	switch {
	case b.async:
		i.polls = 5
		return http.StatusAccepted, operation
	case b.fault == "provision 200":
		return http.StatusOK, object{}
	case b.fault == "provision dashboard":
		return http.StatusCreated, object{"dashboard_url": 5}
	}
	return http.StatusCreated, object{}
}

func (b *toy) fetch(i *toyInstance, id string) (int, any) {
	if i == nil && (b.fault == "fetch unknown" || b.fault == "fetch deleted" && b.removed[id]) {
		return http.StatusOK, object{"service_id": "service-1", "plan_id": "plan-1"}
	}
	if i == nil || b.fault == "fetch missing" {
		return http.StatusNotFound, object{}
	}
	if b.fault == "fetch other plan" {
		return http.StatusOK, object{"service_id": "service-1", "plan_id": "plan-3"}
	}
	return http.StatusOK, object{"service_id": "service-1", "plan_id": i.plan}
}

func (b *toy) deprovision(r *http.Request, i *toyInstance, id string) (int, any) {
	switch {
	case r.FormValue("service_id") == "" && b.fault != "delete no service":
		return b.refuse()
	case i == nil && b.fault == "delete unknown 404" && !b.removed[id]:
		return http.StatusNotFound, object{}
	case i == nil && b.fault == "delete again 200" && b.removed[id]:
		return http.StatusOK, object{}
	case i == nil:
		return http.StatusGone, object{}
	case b.fault == "delete fails":
		return http.StatusInternalServerError, object{}
	case b.async:
		i.deleting, i.polls = true, 2
		return http.StatusAccepted, object{"operation": "op"}
	}
	delete(b.instances, id)
	b.removed[id] = true
	return http.StatusOK, object{}
}

func (b *toy) binding(r *http.Request, instance, id string, body object, bad bool) (int, any) {
	i := b.instances[instance]
	var app string
	there := false
	if i != nil {
		app, there = i.bindings[id]
	}
	credentials := object{"credentials": object{"password": "hush-" + id}}
	switch r.Method {
	case http.MethodPut:
		if b.lacks("bind", body, bad) {
			return b.refuse()
		}
		if i == nil && b.fault == "bind unknown" {
			return http.StatusCreated, credentials
		}
		if i == nil {
			return http.StatusNotFound, object{}
		}
		return b.bind(i, id, app, there, body, credentials)
	case http.MethodGet:
		switch {
		case !there && b.fault != "bind fetch unknown":
			return http.StatusNotFound, object{}
		case b.fault == "bind fetch other":
			return http.StatusOK, object{"credentials": object{"password": "hush-other"}}
		}
		return http.StatusOK, credentials
	}
	switch {
	case r.FormValue("service_id") == "" && b.fault != "unbind no service":
		return b.refuse()
	case !there && b.fault == "unbind unknown 404" && !b.removed[id]:
		return http.StatusNotFound, object{}
	case !there && b.fault == "unbind again 200" && b.removed[id]:
		return http.StatusOK, object{}
	case !there:
		return http.StatusGone, object{}
	case b.fault == "unbind fails":
		return http.StatusInternalServerError, object{}
	}
	delete(i.bindings, id)
	b.removed[id] = true
	return http.StatusOK, object{}
}

func (b *toy) bind(i *toyInstance, id, app string, there bool, body, credentials object) (int, any) {
	given, _ := body["app_guid"].(string)
	switch {
	case i.polls > 0 && b.fault == "async blocked":
		return http.StatusUnprocessableEntity, object{"error": "Busy"}
	case i.polls > 0 && b.fault != "async bound":
		return http.StatusUnprocessableEntity, object{"error": "ConcurrencyError"}
	case there && app != given && b.fault != "bind no conflict":
		return http.StatusConflict, object{}
	case there && b.fault == "bind again 201":
		return http.StatusCreated, credentials
	case there && b.fault == "bind again other":
		return http.StatusOK, object{"credentials": object{"password": "hush-new"}}
	case there:
		return http.StatusOK, credentials
	}
	i.bindings[id] = given
	switch b.fault {
	case "bind text":
		return http.StatusCreated, object{"credentials": "hush"}
	case "bind 200":
		return http.StatusOK, credentials
	}
	return http.StatusCreated, credentials
}
