//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// keeper pushes the sample app that stores users, with a database.
func (s *site) keeper(t *testing.T, name, offering, plan string) {
	t.Helper()
	s.run(t, fmt.Sprintf(`mkdir -p /tmp/%[1]s && cp /files/app/database-app /tmp/%[1]s/ && cd /tmp/%[1]s
ingot create-service %[2]s %[3]s %[1]s-db --wait
ingot push %[1]s -b binary_buildpack -c ./database-app -m 128M -k 128M --no-start
ingot bind-service %[1]s %[1]s-db --wait
ingot start %[1]s`, name, offering, plan))
	eventually(t, name+" has its table", func() bool {
		_, err := s.get(t.Context(), name, "/migrate")
		return err == nil
	})
}

// databases creates a database of each kind, whose server must not run as root nor as the same
// user as another one.
func databases(t *testing.T, s *site) {
	s.install(t)
	plans := map[string]string{}
	out := s.run(t, "ingot curl '/v3/service_plans?include=service_offering'")
	var catalog struct {
		Resources []struct {
			Name          string
			Relationships struct {
				Offering struct{ Data struct{ GUID string } } `json:"service_offering"`
			}
		}
		Included struct {
			Offerings []struct{ GUID, Name string } `json:"service_offerings"`
		}
	}
	if err := json.Unmarshal([]byte(out), &catalog); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, offering := range catalog.Included.Offerings {
		for _, plan := range catalog.Resources {
			if plan.Relationships.Offering.Data.GUID == offering.GUID && plans[offering.Name] == "" {
				plans[offering.Name] = plan.Name
			}
		}
	}
	owners := map[string]string{}
	programs := map[string]string{"postgres": "postgres", "mysql": "mariadbd", "redis": "redis-server"}
	for offering, program := range programs {
		t.Run(offering, func(t *testing.T) { //nolint:paralleltest // one after another
			if plans[offering] == "" {
				t.Fatalf("the marketplace has no %s: %v", offering, plans)
			}
			if offering == "redis" {
				s.run(t, "ingot create-service redis "+plans[offering]+" cache --wait; ingot create-service-key cache key --wait")
			} else {
				s.keeper(t, "keeper-"+offering, offering, plans[offering])
				s.stores(t, "keeper-"+offering, 2)
			}
			ids := strings.Fields(s.run(t, "ps -o uid= -C "+program+" | sort -u"))
			if len(ids) != 1 || ids[0] == "0" || owners[ids[0]] != "" {
				t.Errorf("%s runs as the users %q, want one that is neither root nor that of %q", program, ids, owners)
			}
			for _, id := range ids {
				owners[id] = offering
			}
			// In the slice of the apps, with its own control group.
			s.expect(t, "cat /proc/$(pgrep -o -x "+program+")/cgroup", `^0::/ingot\.slice/`)
		})
	}
	t.Run("restart", func(t *testing.T) { //nolint:paralleltest // one after another
		s.run(t, "systemctl restart ingot"+serverReady)
		for _, offering := range []string{"postgres", "mysql"} {
			eventually(t, offering+" has its users", func() bool {
				_, err := s.users(t, "keeper-"+offering)
				return err == nil
			})
			if n, _ := s.users(t, "keeper-"+offering); len(n) != 2 {
				t.Errorf("%s has %d users after a restart, want 2", offering, len(n))
			}
		}
	})
	s.run(t, `ingot delete -f -r keeper-mysql; ingot delete-service -f keeper-mysql-db
ingot delete-service-key -f cache key; ingot delete-service -f cache`)
}

// stores adds users and reads them.
func (s *site) stores(t *testing.T, app string, n int) {
	t.Helper()
	before, err := s.users(t, app)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.get(t.Context(), app, fmt.Sprintf("/users/add/%d", n)); err != nil {
		t.Fatal(err)
	}
	if after, err := s.users(t, app); err != nil || len(after) != len(before)+n {
		t.Errorf("%s has %d users, %v, want %d", app, len(after), err, len(before)+n)
	}
}

// user is what tells users of the sample app apart.
type user struct{ Email, Password string }

func (s *site) users(t *testing.T, app string) (map[user]bool, error) {
	t.Helper()
	body, err := s.get(t.Context(), app, "/users")
	if err != nil {
		return nil, err
	}
	var list struct{ Users []user }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		return nil, err
	}
	all := map[user]bool{}
	for _, u := range list.Users {
		all[u] = true
	}
	return all, nil
}
