//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// kills ends the server, instances and the database at random while requests are sent. Whatever
// an app has acknowledged must be there afterwards, and all comes back without a hand.
func kills(t *testing.T, s *site) {
	s.install(t)
	if _, err := s.users(t, "keeper-postgres"); err != nil {
		s.keeper(t, "keeper-postgres", "postgres", "small")
	}
	// Several instances: one that is ended again and again is started after longer and longer pauses.
	s.push(t, "page", "-m 64M -k 128M -i 3")
	s.run(t, "ingot scale keeper-postgres -i 2")
	eventually(t, "five instances", func() bool { return len(s.instances(t)) >= 5 })
	n := *killCount
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets

	w := s.write(t)
	victims := map[string]string{
		"unit":     `systemctl show -P MainPID ingot`,
		"instance": `pgrep -f '^/.ingot-init' | shuf -n 1`,
		"database": `pgrep -o -x postgres`,
	}
	names := []string{"unit", "instance", "database"}
	count := map[string]int{}
	var longest time.Duration
	for range n {
		name := names[random.IntN(len(names))]
		count[name]++
		before := w.count()
		// What was killed just before may not run again yet: then there is nothing to kill for a moment.
		s.run(t, fmt.Sprintf(`for i in $(seq 600); do
			pid=$(%s) || pid=0 # the script ends where a command fails
			test "${pid:-0}" != 0 && kill -9 "$pid" 2>/dev/null && exit 0
			sleep 0.1
		done
		echo "nothing to kill"; exit 1`, victims[name]))
		began := time.Now()
		s.answers(t, "page")
		eventually(t, "writes are acknowledged after the kill of the "+name, func() bool { return w.count() > before+2 })
		longest = max(longest, time.Since(began))
	}
	acknowledged := w.stop()
	var stored map[user]bool
	eventually(t, "the users can be read", func() (ok bool) {
		var err error
		stored, err = s.users(t, "keeper-postgres")
		return err == nil
	})
	lost := 0
	for _, u := range acknowledged {
		if !stored[u] {
			lost++
			t.Errorf("%s was acknowledged and is lost", u.Email)
		}
	}
	row(t, fmt.Sprintf("%d random kills (%d of the server, %d of instances, %d of the database)", n, count["unit"],
		count["instance"], count["database"]), "nothing lost",
		fmt.Sprintf("%d of %d acknowledged writes lost, %s at most until all answered", lost, len(acknowledged),
			seconds(longest)))
}

// A writer adds users, one after another, and remembers those that were acknowledged.
type writer struct {
	mu   sync.Mutex
	all  []user
	quit chan struct{}
	done chan struct{}
}

func (s *site) write(t *testing.T) *writer {
	t.Helper()
	w := &writer{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			select {
			case <-w.quit:
				return
			case <-time.After(20 * time.Millisecond):
			}
			body, err := s.get(t.Context(), "keeper-postgres", "/users/add/1")
			var answer struct {
				Added []user `json:"users added"`
			}
			if err == nil && json.Unmarshal([]byte(body), &answer) == nil {
				w.mu.Lock()
				w.all = append(w.all, answer.Added...)
				w.mu.Unlock()
			}
		}
	}()
	return w
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

func (w *writer) stop() []user {
	close(w.quit)
	<-w.done
	return w.all
}
