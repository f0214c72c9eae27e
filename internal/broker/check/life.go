package check

import (
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
)

type object = map[string]any

func (s subject) body() object {
	return object{
		"service_id": s.service.ID, "plan_id": s.plan.ID, "organization_guid": "check-org", "space_guid": "check-space",
		"context": object{"platform": "cloudfoundry", "organization_guid": "check-org", "space_guid": "check-space",
			"instance_name": "check"},
	}
}

func (s subject) bindBody(app string) object {
	return object{
		"service_id": s.service.ID, "plan_id": s.plan.ID, "app_guid": app,
		"bind_resource": object{"app_guid": app}, "context": object{"platform": "cloudfoundry"},
	}
}

func without(o object, name string) object {
	c := object{}
	for k, v := range o {
		if k != name {
			c[k] = v
		}
	}
	return c
}

func with(o object, name string, value any) object {
	c := without(o, name)
	c[name] = value
	return c
}

func instancePath(id string) string { return "/v2/service_instances/" + id }
func bindingPath(instance, id string) string {
	return instancePath(instance) + "/service_bindings/" + id
}

func put(path string, body any) call { return call{method: http.MethodPut, path: path, body: body} }

func async(c call) call {
	query := url.Values{"accepts_incomplete": {"true"}}
	maps.Copy(query, c.query)
	c.query = query
	return c
}

func (s subject) remove(path string) call {
	return async(call{method: http.MethodDelete, path: path, query: s.query()})
}

// life tests the whole life cycle of an instance of one plan.
func (r *runner) life(s subject) {
	r.refusals(s)
	id := newID()
	made := r.provision(s, id)
	if made {
		defer r.deprovision(s, id)
		r.repeat(s, id)
		r.fetch(s, id)
		r.bindings(s, id)
		r.update(s, id)
	} else {
		// The failed request may have created something.
		r.check(secDelete, "what a failed request created is deleted", func(p *probe) { p.gone(s, instancePath(id)) })
	}
}

// refusals sends requests that must be rejected.
func (r *runner) refusals(s subject) {
	refused := func(name string, body any) {
		r.check(secProvision, name, func(p *probe) {
			id := newID()
			defer p.undo(s, instancePath(id))
			p.want(p.do(async(put(instancePath(id), body))), http.StatusBadRequest)
		})
	}
	refused("a body that is not JSON is rejected with 400", `{"service_id":`)
	refused("a request without service_id is rejected with 400", without(s.body(), "service_id"))
	refused("a request without plan_id is rejected with 400", without(s.body(), "plan_id"))
	refused("an unknown service_id is rejected with 400", with(s.body(), "service_id", newID()))
	refused("an unknown plan_id is rejected with 400", with(s.body(), "plan_id", newID()))
	r.check(secDelete, "an unknown instance is gone (410)", func(p *probe) {
		p.want(p.do(s.remove(instancePath(newID()))), http.StatusGone)
	})
	r.check(secDelete, "a request without service_id is rejected with 400", func(p *probe) {
		p.want(p.do(call{method: http.MethodDelete, path: instancePath(newID()), query: url.Values{"plan_id": {s.plan.ID}}}),
			http.StatusBadRequest)
	})
	r.check(secPoll, "an unknown instance has no operation that succeeded", func(p *probe) {
		if a := p.do(call{method: http.MethodGet, path: instancePath(newID()) + "/last_operation",
			query: s.query()}); a.status < http.StatusBadRequest {
			p.fail("status %d for an instance that never existed", a.status)
		}
	})
	if s.bindable() {
		r.check(secBind, "a binding of an unknown instance is rejected", func(p *probe) {
			a := p.do(async(put(bindingPath(newID(), newID()), s.bindBody("check-app"))))
			if a.status < http.StatusBadRequest || a.status >= http.StatusInternalServerError {
				p.fail("status %d, want one of 4xx", a.status)
			}
		})
		r.check(secUnbind, "an unknown binding is gone (410)", func(p *probe) {
			p.want(p.do(s.remove(bindingPath(newID(), newID()))), http.StatusGone)
		})
	}
}

// undo removes what a failed check created, without recording the requests.
func (p *probe) undo(s subject, path string) {
	n, outcome := len(p.result.Exchanges), p.result
	if outcome.Outcome == Pass {
		return
	}
	defer func() {
		e := recover()
		outcome.Exchanges = p.result.Exchanges[:n]
		p.result = outcome
		if e != nil {
			panic(e)
		}
	}()
	if a := p.do(s.remove(path)); a.status == http.StatusAccepted {
		p.poll(path, s, a.string("operation"))
	}
}

// provision creates an instance, synchronously if the broker supports it.
func (r *runner) provision(s subject, id string) bool {
	var needsAsync bool
	made := false
	r.check(secProvision, "an instance is created synchronously (201), or an asynchronous request is required (422 "+
		"AsyncRequired)", func(p *probe) {
		a := p.want(p.do(put(instancePath(id), s.body())), http.StatusCreated, http.StatusUnprocessableEntity)
		if a.status == http.StatusUnprocessableEntity {
			if a.string("error") != "AsyncRequired" {
				p.fail("error is %q, want AsyncRequired", a.string("error"))
			}
			needsAsync = true
			return
		}
		checkDashboard(p, a)
		made = true
	})
	// The asynchronous request is for the same instance if the synchronous one
	// was rejected, otherwise for another.
	second := id
	if !needsAsync {
		second = newID()
	}
	inProgress := false
	ok := r.check(secProvision, "an instance is created with accepts_incomplete=true (201, or 202 and polling)",
		func(p *probe) {
			a := p.want(p.do(async(put(instancePath(second), s.body()))), http.StatusCreated, http.StatusAccepted)
			checkDashboard(p, a)
			if a.status == http.StatusCreated {
				if needsAsync {
					p.fail("status 201, although the synchronous request got AsyncRequired")
				}
				return
			}
			inProgress = true
			r.blocked(s, second, a.string("operation"))
			if state := p.poll(instancePath(second), s, a.string("operation")); state != "succeeded" {
				p.fail("the operation ended as %q", state)
			}
		})
	if !inProgress {
		r.check(secBlock, "an instance in progress rejects other operations (422 ConcurrencyError)",
			func(p *probe) { p.skip("no operation was in progress") })
	}
	if needsAsync {
		return ok
	}
	r.check(secDelete, "an instance created this way is deleted", func(p *probe) { p.gone(s, instancePath(second)) })
	return made
}

func checkDashboard(p *probe, a *answer) {
	if v, there := a.object["dashboard_url"]; there && v != nil {
		if _, ok := v.(string); !ok {
			p.fail("dashboard_url is neither a string nor null")
		}
	}
}

// state returns the state of the last operation.
func (p *probe) state(s subject, id string) string {
	return p.do(call{method: http.MethodGet, path: instancePath(id) + "/last_operation", query: s.query()}).string("state")
}

// blocked tests an instance whose creation is in progress.
func (r *runner) blocked(s subject, id, operation string) {
	r.check(secProvision, "a repeated request while in progress is accepted (202)", func(p *probe) {
		a := p.want(p.do(async(put(instancePath(id), s.body()))), http.StatusAccepted, http.StatusOK)
		if a.status == http.StatusOK {
			if p.state(s, id) == "in progress" {
				p.fail("200 OK, but it is still in progress")
			}
			p.skip("it was ready by then")
		}
		if a.string("operation") != operation {
			p.fail("operation is %q, it was %q before", a.string("operation"), operation)
		}
	})
	r.check(secBlock, "an instance in progress rejects other operations (422 ConcurrencyError)", func(p *probe) {
		if !s.bindable() {
			p.skip("the plan cannot be bound")
		}
		binding := newID()
		a := p.do(async(put(bindingPath(id, binding), s.bindBody("check-app"))))
		switch {
		case a.status == http.StatusCreated || a.status == http.StatusAccepted:
			// It may have become ready in the meantime.
			state := p.state(s, id)
			p.gone(s, bindingPath(id, binding))
			if state == "in progress" {
				p.fail("an instance was bound while its creation was in progress")
			}
			p.skip("it was ready by then")
		case a.status == http.StatusUnprocessableEntity && a.string("error") != "ConcurrencyError":
			p.fail("error is %q, want ConcurrencyError", a.string("error"))
		case a.status < http.StatusBadRequest || a.status >= http.StatusInternalServerError:
			p.fail("status %d, want 422", a.status)
		}
	})
}

// repeat sends the request for an instance again, unchanged and changed.
func (r *runner) repeat(s subject, id string) {
	r.check(secProvision, "a repeated request is answered with 200", func(p *probe) {
		p.want(p.do(async(put(instancePath(id), s.body()))), http.StatusOK)
	})
	r.check(secProvision, "the same id with other attributes is a conflict (409)", func(p *probe) {
		if s.other == nil {
			p.skip("the offering has only one plan")
		}
		p.want(p.do(async(put(instancePath(id), with(s.body(), "plan_id", s.other.ID)))), http.StatusConflict)
	})
}

func (r *runner) fetch(s subject, id string) {
	r.check(secFetch, "an instance can be fetched, with its service and plan", func(p *probe) {
		if !s.service.InstancesRetrievable {
			p.skip("instances_retrievable is not true")
		}
		a := p.want(p.do(call{method: http.MethodGet, path: instancePath(id), query: s.query()}), http.StatusOK)
		if a.string("service_id") != s.service.ID || a.string("plan_id") != s.plan.ID {
			p.fail("wrong service_id or plan_id")
		}
	})
	r.check(secFetch, "an unknown instance is not found (404)", func(p *probe) {
		if !s.service.InstancesRetrievable {
			p.skip("instances_retrievable is not true")
		}
		p.want(p.do(call{method: http.MethodGet, path: instancePath(newID()), query: s.query()}), http.StatusNotFound)
	})
}

// bindings creates, fetches and deletes a binding.
func (r *runner) bindings(s subject, id string) {
	if !s.bindable() {
		r.check(secBind, "a binding is created", func(p *probe) { p.skip("the plan cannot be bound") })
		return
	}
	r.check(secBind, "a body that is not JSON is rejected with 400", func(p *probe) {
		p.want(p.do(put(bindingPath(id, newID()), `[1`)), http.StatusBadRequest)
	})
	for _, name := range []string{"service_id", "plan_id"} {
		r.check(secBind, "a request without "+name+" is rejected with 400", func(p *probe) {
			binding := newID()
			defer p.undo(s, bindingPath(id, binding))
			p.want(p.do(async(put(bindingPath(id, binding), without(s.bindBody("check-app"), name)))), http.StatusBadRequest)
		})
	}
	path := bindingPath(id, newID())
	var first any
	made := r.check(secBind, "a binding is created (201, or 202 and polling)", func(p *probe) {
		a := p.want(p.do(async(put(path, s.bindBody("check-app")))), http.StatusCreated, http.StatusAccepted)
		if a.status == http.StatusAccepted {
			if state := p.poll(path, s, a.string("operation")); state != "succeeded" {
				p.fail("the operation ended as %q", state)
			}
			if !s.service.BindingsRetrievable {
				p.fail("the binding is created asynchronously, so bindings_retrievable must be true")
			}
			a = p.want(p.do(call{method: http.MethodGet, path: path, query: s.query()}), http.StatusOK)
		}
		first = a.object["credentials"]
		if _, ok := first.(map[string]any); first != nil && !ok {
			p.fail("credentials is not an object")
		}
	})
	if !made {
		r.check(secUnbind, "what a failed request created is deleted", func(p *probe) { p.gone(s, path) })
		return
	}
	r.check(secBind, "a repeated request is answered with 200 and the same credentials", func(p *probe) {
		a := p.want(p.do(async(put(path, s.bindBody("check-app")))), http.StatusOK)
		if !reflect.DeepEqual(a.object["credentials"], first) {
			p.fail("the credentials differ")
		}
	})
	r.check(secBind, "the same id with other attributes is a conflict (409)", func(p *probe) {
		p.want(p.do(async(put(path, s.bindBody("check-other-app")))), http.StatusConflict)
	})
	r.check(secFetchBind, "a binding can be fetched, with its credentials", func(p *probe) {
		if !s.service.BindingsRetrievable {
			p.skip("bindings_retrievable is not true")
		}
		a := p.want(p.do(call{method: http.MethodGet, path: path, query: s.query()}), http.StatusOK)
		if !reflect.DeepEqual(a.object["credentials"], first) {
			p.fail("the credentials differ")
		}
	})
	r.check(secFetchBind, "an unknown binding is not found (404)", func(p *probe) {
		if !s.service.BindingsRetrievable {
			p.skip("bindings_retrievable is not true")
		}
		p.want(p.do(call{method: http.MethodGet, path: bindingPath(id, newID()), query: s.query()}), http.StatusNotFound)
	})
	r.check(secUnbind, "a request without service_id is rejected with 400", func(p *probe) {
		p.want(p.do(call{method: http.MethodDelete, path: path, query: url.Values{"plan_id": {s.plan.ID}}}),
			http.StatusBadRequest)
	})
	r.check(secUnbind, "a binding is deleted (200, or 202 and polling)", func(p *probe) { p.gone(s, path) })
	r.check(secUnbind, "a deleted binding is gone (410)", func(p *probe) {
		p.want(p.do(s.remove(path)), http.StatusGone)
	})
}

// update changes the plan and changes it back.
func (r *runner) update(s subject, id string) {
	patch := func(sub subject, to string) call {
		return async(call{method: http.MethodPatch, path: instancePath(id), body: object{
			"service_id": s.service.ID, "plan_id": to, "context": object{"platform": "cloudfoundry"},
			"previous_values": object{"plan_id": sub.plan.ID, "service_id": s.service.ID},
		}})
	}
	r.check(secUpdate, "an unknown plan is rejected", func(p *probe) {
		a := p.do(patch(s, newID()))
		if a.status != http.StatusBadRequest && a.status != http.StatusUnprocessableEntity {
			p.fail("status %d, want 400 or 422", a.status)
		}
	})
	r.check(secUpdate, "a request without service_id is rejected with 400", func(p *probe) {
		p.want(p.do(async(call{method: http.MethodPatch, path: instancePath(id), body: object{"plan_id": s.plan.ID}})),
			http.StatusBadRequest)
	})
	r.check(secUpdate, "the plan can be changed, and back", func(p *probe) {
		if s.other == nil || !s.updateable() {
			p.skip("the offering has only one plan, or plan_updateable is not true")
		}
		now := subject{service: s.service, plan: *s.other}
		for _, step := range []struct{ from, to subject }{{s, now}, {now, s}} {
			a := p.want(p.do(patch(step.from, step.to.plan.ID)), http.StatusOK, http.StatusAccepted)
			if a.status == http.StatusAccepted {
				if state := p.poll(instancePath(id), step.from, a.string("operation")); state != "succeeded" {
					p.fail("the operation ended as %q", state)
				}
			}
			if s.service.InstancesRetrievable {
				got := p.want(p.do(call{method: http.MethodGet, path: instancePath(id), query: step.to.query()}), http.StatusOK)
				if got.string("plan_id") != step.to.plan.ID {
					p.fail("the instance still shows plan_id %q", got.string("plan_id"))
				}
			}
		}
	})
}

// deprovision deletes the instance and checks that it is gone.
func (r *runner) deprovision(s subject, id string) {
	path := instancePath(id)
	r.check(secDelete, "an instance is deleted (200, or 202 and polling)", func(p *probe) { p.gone(s, path) })
	r.check(secDelete, "a deleted instance is gone (410)", func(p *probe) {
		p.want(p.do(s.remove(path)), http.StatusGone)
	})
	r.check(secFetch, "a deleted instance is not found (404)", func(p *probe) {
		if !s.service.InstancesRetrievable {
			p.skip("instances_retrievable is not true")
		}
		p.want(p.do(call{method: http.MethodGet, path: path, query: s.query()}), http.StatusNotFound)
	})
}

// gone deletes a resource, if it exists, and waits until it is deleted.
func (p *probe) gone(s subject, path string) {
	a := p.want(p.do(s.remove(path)), http.StatusOK, http.StatusAccepted, http.StatusGone)
	if a.status == http.StatusAccepted {
		if state := p.poll(path, s, a.string("operation")); !slices.Contains([]string{"succeeded", "gone"}, state) {
			p.fail("the operation ended as %q", state)
		}
	}
}
