package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/db/dbtest"
	"ingot/internal/broker"
)

// TestPostgres uses a real PostgreSQL, and TestMySQL a real MariaDB. The bundled
// broker runs them.
func TestPostgres(t *testing.T) {
	t.Parallel()
	life(t, bind(t, "postgres", brokered(t, "postgres")), `relation "users" does not exist`)
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	life(t, bind(t, "mysql", brokered(t, "mysql")), "users' doesn't exist")
}

// bind returns the environment of an app with a bound service.
func bind(t *testing.T, label string, credentials map[string]any) func(string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{label: []any{map[string]any{"name": "db", "label": label,
		"credentials": credentials}}})
	if err != nil {
		t.Fatal(err)
	}
	return environment("VCAP_SERVICES", string(text))
}

func environment(pairs ...string) func(string) string {
	all := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return all[name] }
}

// brokered creates an instance and a binding with the bundled broker, and returns
// the credentials.
func brokered(t *testing.T, offering string) map[string]any {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingot-sample-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // the database server can run as another user
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b, err := broker.New(broker.Config{Dir: dir, Keys: dbtest.Keys(t)})
	if err == nil {
		err = b.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	call := func(method, path string, body, into any) {
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
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		got, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode < 300 {
			err = json.Unmarshal(got, into)
		}
		if err != nil || answer.StatusCode >= 300 {
			t.Fatalf("%s %s answers %d %s, %v, want a status of 2xx", method, path, answer.StatusCode, got, err)
		}
	}
	var catalog struct {
		Services []struct {
			ID, Name string
			Plans    []struct{ ID, Name string }
		}
	}
	call(http.MethodGet, "/v2/catalog", nil, &catalog)
	for _, s := range catalog.Services {
		if s.Name != offering {
			continue
		}
		ids := map[string]any{"service_id": s.ID, "plan_id": s.Plans[0].ID, "organization_guid": "o", "space_guid": "s"}
		var bound struct{ Credentials map[string]any }
		call(http.MethodPut, "/v2/service_instances/one", ids, &struct{}{})
		call(http.MethodPut, "/v2/service_instances/one/service_bindings/two", ids, &bound)
		return bound.Credentials
	}
	t.Skipf("the broker has no %s: its server is not installed here (make setup-test gets it)", offering)
	return nil
}

// failure is the body of all errors.
type failure struct {
	Error string
	Trace []string
}

// life calls all endpoints of the app.
func life(t *testing.T, getenv func(string) string, notMigrated string) {
	t.Helper()
	u, err := open(getenv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.close)
	h := (&app{users: u}).handler()
	get := func(path string, status int, into any) string {
		t.Helper()
		return ask(t, h, path, status, into)
	}

	for _, path := range []string{"/users", "/users/add/1", "/users/delete"} {
		var f failure
		get(path, http.StatusInternalServerError, &f)
		if !strings.Contains(f.Error, notMigrated) || len(f.Trace) < 3 || !strings.Contains(f.Trace[0], "users.go:") {
			t.Errorf("%s before /migrate: %+v", path, f)
		}
	}
	for range 2 { // the second migration has nothing to do
		if got := get("/migrate", http.StatusOK, nil); compact(got) != `{"migrated":true}` {
			t.Fatalf("/migrate: %s", got)
		}
	}
	if got := get("/users", http.StatusOK, nil); compact(got) != `{"count":0,"users":[]}` {
		t.Errorf("/users of an empty table: %s", got)
	}
	var added struct {
		Amount int    `json:"amount"`
		Users  []user `json:"users added"`
	}
	get("/users/add/3", http.StatusOK, &added)
	if added.Amount != 3 || len(added.Users) != 3 {
		t.Fatalf("/users/add/3: %+v", added)
	}
	var listed struct {
		Count int
		Users []user
	}
	text := get("/users", http.StatusOK, &listed)
	if listed.Count != 3 || !slices.Equal(listed.Users, added.Users) {
		t.Errorf("/users: %+v, want %+v", listed, added)
	}
	for _, field := range []string{`"firstName"`, `"lastName"`, `"birthday"`, `"email"`, `"password"`} {
		if strings.Count(text, field) != 3 {
			t.Errorf("%s is not in each user: %s", field, text)
		}
	}
	get("/users/add/2500", http.StatusOK, &added)
	if get("/users", http.StatusOK, &listed); listed.Count != 2503 || len(listed.Users) != 2503 ||
		!slices.Equal(listed.Users[3:], added.Users) {
		t.Errorf("%d users, %d in the list", listed.Count, len(listed.Users))
	}
	for _, amount := range []string{"0", "-1", "x", "1.5", "10001", "99999999999999999999"} {
		var f failure
		get("/users/add/"+amount, http.StatusBadRequest, &f)
		if !strings.Contains(f.Error, `"`+amount+`"`) || len(f.Trace) == 0 {
			t.Errorf("amount %s: %+v", amount, f)
		}
	}
	if got := get("/users/delete", http.StatusOK, nil); compact(got) != `{"users":[]}` {
		t.Errorf("/users/delete: %s", got)
	}
	if get("/users", http.StatusOK, &listed); listed.Count != 0 {
		t.Errorf("%d users are left", listed.Count)
	}
}

func ask(t *testing.T, h http.Handler, path string, status int, into any) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	text := w.Body.String()
	if w.Code != status || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %d %s, want %d", path, w.Code, text, status)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v in %s", path, err, text)
		}
	}
	return text
}

// compact returns JSON on one line.
func compact(text string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return text
	}
	return b.String()
}

// TestNoDatabase checks that the app responds with an error, whatever is missing.
func TestNoDatabase(t *testing.T) {
	t.Parallel()
	_, trouble := open(environment())
	h := (&app{trouble: trouble}).handler()
	u, err := open(environment("DB_CONNECTION", "mysql", "DB_PORT", "1", "DB_DATABASE", "d", "DB_USERNAME", "u",
		"DB_PASSWORD", "hush hush"))
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	away := (&app{users: u}).handler()
	for _, path := range []string{"/migrate", "/users/add/3", "/users", "/users/delete"} {
		var f failure
		ask(t, h, path, http.StatusInternalServerError, &f)
		if !strings.Contains(f.Error, "cf bind-service") || len(f.Trace) == 0 {
			t.Errorf("%s without a database: %+v", path, f)
		}
		text := ask(t, away, path, http.StatusInternalServerError, &f)
		if !strings.Contains(f.Error, "connection refused") || strings.Contains(text, "hush") {
			t.Errorf("%s with a database that is away: %+v", path, f)
		}
		for _, method := range []string{http.MethodHead, http.MethodPost} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s answers %d, want %d", method, path, w.Code, http.StatusMethodNotAllowed)
			}
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	const full = `"host": "h", "port": %s, "database": "d", "username": "u", "password": "p"`
	service := func(label, name, more, port string) string {
		return fmt.Sprintf(`%q: [{"name": %q, "credentials": {`+full+more+`}}]`, label, name, port)
	}
	for name, test := range map[string]struct {
		env  []string
		want string // kind host port database user password, or part of the error
	}{
		"postgres": {[]string{"VCAP_SERVICES", "{" + service("postgres", "db", "", "5433") + "}", "DB_HOST", "local"},
			"PostgreSQL h 5433 d u p"},
		"mysql": {[]string{"VCAP_SERVICES", "{" + service("mysql", "db", "", `"3307"`) + "}"},
			"MySQL h 3307 d u p"},
		"by its uri": {[]string{"VCAP_SERVICES", "{" + service("user-provided", "db", `, "uri": "mysql2://x"`, "1") +
			"}"}, "MySQL h 1 d u p"},
		"by its tags": {[]string{"VCAP_SERVICES",
			`{"x": [{"name": "db", "tags": ["sql", "PostgreSQL"], "credentials": {` + fmt.Sprintf(full, "2") + `}}]}`},
			"PostgreSQL h 2 d u p"},
		"others are there": {[]string{"VCAP_SERVICES", "{" + service("redis", "r", `, "uri": "redis://x"`, "6379") + "," +
			service("mysql", "db", "", "1") + "}"}, "MySQL h 1 d u p"},
		"one of two": {[]string{"VCAP_SERVICES", "{" + service("postgres", "a", "", "1") + "," +
			service("mysql", "b", "", "2") + "}", "DATABASE_SERVICE", "b"}, "MySQL h 2 d u p"},
		"two": {[]string{"VCAP_SERVICES", "{" + service("postgres", "a", "", "1") + "," +
			service("mysql", "b", "", "2") + "}"}, "several databases are bound to this app: b, a"},
		"none of two": {[]string{"VCAP_SERVICES", "{" + service("postgres", "a", "", "1") + "}", "DATABASE_SERVICE",
			"b"}, `no database with the name "b"`},
		"broken": {[]string{"VCAP_SERVICES", "{"}, "VCAP_SERVICES cannot be read"},
		"incomplete": {[]string{"VCAP_SERVICES", `{"postgres": [{"name": "db", "credentials": {"host": "h"}}]}`},
			"the service db gives no database"},
		"port": {[]string{"VCAP_SERVICES", "{" + service("postgres", "db", "", `"x"`) + "}"}, `the port "x"`},
		"local": {[]string{"DB_HOST", "l", "DB_DATABASE", "d", "DB_USERNAME", "u", "VCAP_SERVICES", "{}"},
			"PostgreSQL l 5432 d u "},
		"local mysql": {[]string{"DB_CONNECTION", "mariadb", "DB_PORT", "1", "DB_DATABASE", "d", "DB_USERNAME", "u",
			"DB_PASSWORD", "p"}, "MySQL 127.0.0.1 1 d u p"},
		"local oracle": {[]string{"DB_CONNECTION", "oracle"}, `DB_CONNECTION is "oracle"`},
		"nothing":      {nil, "no database is bound"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := configured(environment(test.env...))
			got := fmt.Sprint(err)
			if err == nil {
				got = strings.Join([]string{c.kind.name, c.host, c.port, c.database, c.username, c.password}, " ")
			}
			if !strings.Contains(got, test.want) || err == nil && got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}
