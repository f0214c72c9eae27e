package e2e

import (
	"net/http"
	"sync"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/services/brokertest"
)

// TestSoakServicesSurviveKill kills the server during each kind of broker
// operation, before the broker responds, and restarts it: every operation
// completes, and nothing is left over. The long form kills it more than a hundred
// times.
func TestSoakServicesSurviveKill(t *testing.T) {
	t.Parallel()
	rounds := times(1, 13) // of two plans and four operations
	// The first call of each operation gets no response until the server is dead.
	var mu sync.Mutex
	armed, entered, release := "", make(chan struct{}), make(chan struct{})
	b := brokertest.New(t, &brokertest.Broker{Polls: 1, Hook: func(r *brokertest.Request) (*brokertest.Reply, bool) {
		mu.Lock()
		if armed == "" || armed != r.Operation() {
			mu.Unlock()
			return nil, false
		}
		armed = ""
		in, out := entered, release
		mu.Unlock()
		close(in)
		<-out
		return nil, false // it does the work, although the client is gone
	}})
	s := start(t, options{Args: []string{"--demo"}})
	token := s.adminToken(t)
	site := &site{s}
	space := site.list(t, token, "/v3/spaces")[0]["guid"].(string)
	done := func(r *reply) string {
		t.Helper()
		r.want(t, http.StatusAccepted)
		where := r.Header.Get("Location")
		var job struct {
			State string
			Links map[string]struct{ Href string }
		}
		testkit.Eventually(t, "the job ends", func() bool {
			s.call(t, http.MethodGet, where, token, nil).into(t, &job)
			return job.State == "COMPLETE" || job.State == "FAILED"
		})
		if job.State != "COMPLETE" {
			t.Fatalf("a job failed: %s", s.call(t, http.MethodGet, where, token, nil))
		}
		return where
	}
	post := func(path string, body any) *reply { return s.call(t, http.MethodPost, path, token, body) }
	done(post("/v3/service_brokers", map[string]any{"name": "b", "url": b.URL, "authentication": map[string]any{
		"type": "basic", "credentials": map[string]string{"username": brokertest.Username, "password": brokertest.Password},
	}}))
	relation := func(guid string) map[string]any { return map[string]any{"data": map[string]string{"guid": guid}} }
	app := post("/v3/apps", map[string]any{"name": "a", "relationships": map[string]any{"space": relation(space)}}).
		want(t, http.StatusCreated).object(t)["guid"].(string)

	// killing sends a request, kills the server when the broker has received it,
	// and waits for the result.
	killing := func(operation string, request func() *reply) {
		t.Helper()
		mu.Lock()
		armed, entered, release = operation, make(chan struct{}), make(chan struct{})
		in, out := entered, release
		mu.Unlock()
		r := request().want(t, http.StatusAccepted)
		testkit.Eventually(t, "the broker is asked for "+operation, func() bool {
			select {
			case <-in:
				return true
			default:
				return false
			}
		})
		s.Kill9(t)
		close(out)
		s.Restart(t)
		done(r)
	}
	only := func(path string) string {
		t.Helper()
		all := site.list(t, token, path)
		if len(all) != 1 {
			t.Fatalf("%s lists %v, want 1", path, all)
		}
		return all[0]["guid"].(string)
	}
	for range rounds {
		for _, plan := range []string{brokertest.Sync, brokertest.Async} {
			guid := only("/v3/service_plans?names=" + plan)
			killing("provision", func() *reply {
				return post("/v3/service_instances", map[string]any{"type": "managed", "name": plan,
					"relationships": map[string]any{"space": relation(space), "service_plan": relation(guid)}})
			})
			instance := only("/v3/service_instances?names=" + plan)
			killing("bind", func() *reply {
				return post("/v3/service_credential_bindings", map[string]any{"type": "app",
					"relationships": map[string]any{"app": relation(app), "service_instance": relation(instance)}})
			})
			binding := only("/v3/service_credential_bindings")
			if n := b.Bindings(); n != 1 {
				t.Errorf("%d bindings at the broker, want 1", n)
			}
			// New credentials: killed while they are made, or while the old ones are revoked.
			killing(map[string]string{brokertest.Sync: "bind", brokertest.Async: "unbind"}[plan], func() *reply {
				return post("/v3/ingot/service_instances/"+instance+"/rotate", map[string]any{"grace_seconds": 0})
			})
			testkit.Eventually(t, "the old credentials are revoked", func() bool { return b.Bindings() == 1 })
			if only("/v3/service_credential_bindings") != binding {
				t.Error("the rotated binding has another guid")
			}
			killing("unbind", func() *reply {
				return s.call(t, http.MethodDelete, "/v3/service_credential_bindings/"+binding, token, nil)
			})
			killing("deprovision", func() *reply {
				return s.call(t, http.MethodDelete, "/v3/service_instances/"+instance,
					token, nil)
			})
			if left := b.Instances(); len(left) != 0 {
				t.Errorf("left at the broker: %v", left)
			}
		}
	}
	s.Stop(t)
}
