//go:build linux

package container_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/daemon"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/broker"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/enginetest"
)

// An app in a container reaches the services that the bundled broker runs on
// this machine, with the credentials it was given, and only those.
func TestServicesFromInside(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	start(t, e, idle("unbound"))
	keys, err := seal.Parse(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(broker.Config{
		Dir: enginetest.TempDir(t), Keys: keys,
		Reach: broker.Reach{Host: e.Gateway(), From: e.Subnet()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	call := func(method, path string, body any) map[string]any {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, b.URL()+path, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(broker.Username, b.Password())
		r.Header.Set("X-Broker-API-Version", "2.17")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		var object map[string]any
		if err != nil || resp.StatusCode > http.StatusAccepted || json.Unmarshal(answer, &object) != nil {
			t.Fatalf("%s %s answers %s, %s, %v, want 200, 201 or 202 and an object", method, path, resp.Status, answer, err)
		}
		return object
	}
	psql := ""
	if bin, err := daemon.Postgres(); err == nil {
		psql = filepath.Join(bin, "psql")
	}
	// What each offering is asked, by the server's own client program.
	ask := map[string]string{
		broker.Postgres: psql + ` 'URI' -tAc 'SELECT 41 + 1'`,
		broker.MySQL:    `mariadb --no-defaults -h HOST -P PORT -u USER -pPASSWORD -Nse 'SELECT 41 + 1' DATABASE`,
		broker.Redis:    `redis-cli -u URI --no-auth-warning SET k 42 >/dev/null; redis-cli -u URI --no-auth-warning GET k`,
	}
	tried := 0
	for _, s := range call(http.MethodGet, "/v2/catalog", nil)["services"].([]any) {
		service := s.(map[string]any)
		name := service["name"].(string)
		ids := map[string]any{"service_id": service["id"], "plan_id": service["plans"].([]any)[0].(map[string]any)["id"],
			"organization_guid": "o", "space_guid": "s"}
		path := "/v2/service_instances/" + name
		// As the platform does: the first start of a server takes longer than a request may on a busy machine.
		call(http.MethodPut, path+"?accepts_incomplete=true", ids)
		testkit.Eventually(t, "the instance of "+name+" is ready", func() bool {
			last := call(http.MethodGet, path+"/last_operation", nil)
			if last["state"] == "failed" {
				t.Fatalf("%s: %v", name, last)
			}
			return last["state"] == "succeeded"
		})
		app := "app-of-" + name
		ids["bind_resource"] = map[string]any{"app_guid": app}
		c := call(http.MethodPut, path+"/service_bindings/b", ids)["credentials"].(map[string]any)
		if c["host"] != e.Gateway().String() {
			t.Errorf("%s: host %v, want %v", name, c["host"], e.Gateway())
		}
		var words []string
		for word, field := range map[string]string{"URI": "uri", "HOST": "host", "PORT": "port", "USER": "username",
			"PASSWORD": "password", "DATABASE": "database"} {
			words = append(words, word, fmt.Sprint(c[field]))
		}
		command := strings.NewReplacer(words...).Replace(ask[name])
		reach, err := b.Endpoints(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		bound := idle(name)
		bound.Reach = reach
		start(t, e, bound)
		if out, status := inside(t, e, "unbound", fmt.Sprintf(`exec 3<>/dev/tcp/%v/%v`, c["host"], c["port"])); status == 0 {
			t.Errorf("%s is reached by an app that is not bound to it: %s", name, out)
		}
		if out, status := inside(t, e, name, command); status != 0 || out != "42" {
			t.Errorf("%s: %q, status %d", name, out, status)
		}
		// Not by another address of this machine.
		if out, status := inside(t, e, name, fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%v`, c["port"])); status == 0 {
			t.Errorf("%s is reached on loopback: %s", name, out)
		}
		query := fmt.Sprintf("?service_id=%v&plan_id=%v", ids["service_id"], ids["plan_id"])
		call(http.MethodDelete, path+"/service_bindings/b"+query, nil)
		if out, status := inside(t, e, name, command); status == 0 && strings.Contains(out, "42") {
			t.Errorf("%s: after unbinding: %q", name, out)
		}
		call(http.MethodDelete, path+query, nil)
		tried++
	}
	// The broker's own port is none of what instances may reach.
	_, port, _ := strings.Cut(strings.TrimPrefix(b.URL(), "http://"), ":")
	if out, status := inside(t, e, "unbound", fmt.Sprintf(`exec 3<>/dev/tcp/%v/%s`, e.Gateway(), port)); status == 0 {
		t.Errorf("the broker is reached: %s", out)
	}
	if tried == 0 {
		t.Skip("no server is installed")
	}
}
