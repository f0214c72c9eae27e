package broker

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"ingot/internal/base/testkit"
)

// clients is a fake authorization server.
type clients struct {
	mu   sync.Mutex
	all  map[string][]string // authorities by id
	keys map[string][]string
	fail error
}

func newClients() *clients { return &clients{all: map[string][]string{}, keys: map[string][]string{}} }

func (c *clients) EnsureClient(_ context.Context, id string, secrets, authorities []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[id], c.keys[id] = authorities, secrets // also when the response is lost
	return c.fail
}

func (c *clients) RemoveClient(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, id)
	delete(c.keys, id)
	return nil
}

func (c *clients) ids() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idsLocked()
}

func (c *clients) idsLocked() []string { return slices.Sorted(maps.Keys(c.all)) }

func withNotifications(t *testing.T, c *clients) Config {
	return Config{
		Dir: tempDir(t), Keys: testKeys(t), Without: []string{Postgres, MySQL, Redis},
		Notifications: &NotificationService{URL: "http://10.9.0.1:8081", AuthURL: "http://10.9.0.1:8080", Clients: c},
	}
}

func bindBodyOf(plan int, app string) map[string]any {
	o, _ := offeringNamed(Notifications)
	return map[string]any{
		"service_id": o.id, "plan_id": o.plans[plan].id, "organization_guid": "o", "space_guid": "s",
		"bind_resource": map[string]any{"app_guid": app},
	}
}

// TestNotifications tests a binding: it has a client with the authorities of the
// plan, which is deleted with the binding or the instance.
func TestNotifications(t *testing.T) {
	t.Parallel()
	made := newClients()
	c := clientOf(t, started(t, withNotifications(t, made)))
	want := func(method, path string, body any, status int) map[string]any {
		t.Helper()
		got, answer, err := c.try(method, path, body)
		if err != nil || got != status {
			t.Fatalf("%s %s answers %d %v, %v, want %d", method, path, got, answer, err, status)
		}
		return answer
	}
	body := bindBodyOf(0, "a")
	query := "?service_id=" + body["service_id"].(string) + "&plan_id=" + body["plan_id"].(string)
	want(http.MethodPut, "/v2/service_instances/mail", body, http.StatusCreated)
	values := want(http.MethodPut, "/v2/service_instances/mail/service_bindings/b", body,
		http.StatusCreated)["credentials"].(map[string]any)
	again := want(http.MethodPut, "/v2/service_instances/mail/service_bindings/b", body,
		http.StatusOK)["credentials"].(map[string]any)
	if !maps.Equal(values, again) || len(values) != 4 || values["url"] != "http://10.9.0.1:8081" ||
		values["auth_url"] != "http://10.9.0.1:8080" {
		t.Errorf("credentials: %v, again %v", values, again)
	}
	id := values["client_id"].(string)
	plain := []string{"notifications.write", "notifications.manage", "notification_templates.write",
		"notification_templates.read"}
	if !slices.Equal(made.all[id], plain) || !slices.Equal(made.keys[id], []string{values["client_secret"].(string)}) ||
		len(made.all) != 1 {
		t.Errorf("clients: %v", made.all)
	}
	// The other plan adds one authority; changing back removes it.
	critical := bindBodyOf(1, "a")
	want(http.MethodPatch, "/v2/service_instances/mail", critical, http.StatusOK)
	if !slices.Equal(made.all[id], append(slices.Clone(plain), "critical_notifications.write")) ||
		!slices.Equal(made.keys[id], []string{values["client_secret"].(string)}) {
		t.Errorf("after the change of the plan: %v", made.all)
	}
	want(http.MethodPatch, "/v2/service_instances/mail", body, http.StatusOK)
	if !slices.Equal(made.all[id], plain) {
		t.Errorf("after the change back: %v", made.all)
	}
	want(http.MethodPut, "/v2/service_instances/mail/service_bindings/key", bindBodyOf(0, ""), http.StatusCreated)
	want(http.MethodDelete, "/v2/service_instances/mail/service_bindings/b"+query, nil, http.StatusOK)
	if left := made.ids(); len(left) != 1 || left[0] == id {
		t.Errorf("after unbinding: %v", left)
	}
	want(http.MethodDelete, "/v2/service_instances/mail"+query, nil, http.StatusOK)
	if left := made.ids(); len(left) != 0 {
		t.Errorf("after the instance was deleted: %v", left)
	}
}

// TestNotificationsKilled stops while binding, after the client was created and
// before the response: the next broker deletes it.
func TestNotificationsKilled(t *testing.T) {
	t.Parallel()
	made := newClients()
	config := withNotifications(t, made)
	first, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{ID: "mail", Offering: Notifications, PlanID: bindBodyOf(0, "")["plan_id"].(string), On: local,
		Phase: ready, Bindings: map[string]*binding{
			"b": {ID: "b", Nonce: newNonce(), Phase: creating, AppGUID: "a"},
		}}
	if err := first.state.save(i); err != nil {
		t.Fatal(err)
	}
	s := first.backends[Notifications][0]
	if err := s.bind(t.Context(), i, i.Bindings["b"], "secret"); err != nil || len(made.ids()) != 1 {
		t.Fatalf("clients are %v, %v, want 1", made.ids(), err)
	}
	next := started(t, config)
	testkit.Eventually(t, "nothing is left over", func() bool {
		return len(made.ids()) == 0 &&
			len(next.state.get("mail").Bindings) == 0
	})
}

// TestNotificationsFail has an authorization server that fails after it created
// the client: the client is deleted.
func TestNotificationsFail(t *testing.T) {
	t.Parallel()
	made := newClients()
	made.fail = errors.New("not this time")
	c := clientOf(t, started(t, withNotifications(t, made)))
	body := bindBodyOf(0, "a")
	if status, answer, err := c.try(http.MethodPut, "/v2/service_instances/mail", body); err != nil ||
		status != http.StatusCreated {
		t.Fatalf("provisioning: %d %v, %v, want %d", status, answer, err, http.StatusCreated)
	}
	if status, _, err := c.try(http.MethodPut, "/v2/service_instances/mail/service_bindings/b", body); err != nil ||
		status != http.StatusInternalServerError {
		t.Fatalf("binding: %d, %v, want %d", status, err, http.StatusInternalServerError)
	}
	if left := made.ids(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}
