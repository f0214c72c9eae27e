// Database-app stores generated users in the bound database, PostgreSQL or MySQL
// (MariaDB).
//
//	GET /migrate             creates the table    {"migrated": true}
//	GET /users/add/{amount}  adds users           {"amount": 2, "users added": […]}
//	GET /users               lists all users      {"count": 2, "users": […]}
//	GET /users/delete        deletes all users    {"users": []}
//
// Errors are {"error": …, "trace": […]}. All paths use GET so that they can be
// tried in a browser; a production app would use POST and DELETE for changes.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"

	"ingot/samples/internal/sample"
)

// most is the maximum number of users that can be added at a time.
const most = 10_000

func main() {
	sample.Main(func(ctx context.Context) error {
		a := &app{}
		// The app also runs without a database: its responses then say what is
		// missing.
		if a.users, a.trouble = open(os.Getenv); a.trouble != nil {
			slog.Error("no database", "error", a.trouble)
		} else {
			defer a.users.close()
			slog.Info("using a database", "kind", a.users.kind.name, "from", a.users.from)
		}
		return sample.ServeWeb(ctx, a.handler())
	})
}

type app struct {
	users   *users
	trouble error // why the database cannot be used
}

func (a *app) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "I keep made-up users. Call /migrate once, then /users/add/3, /users and /users/delete.")
	})
	for path, answer := range map[string]func(r *http.Request) (any, error){
		"/migrate": a.migrate, "/users/add/{amount}": a.add, "/users": a.list, "/users/delete": a.remove,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, answer) })
	}
	return mux
}

// badInput is an error of the caller, not of the database.
type badInput struct{ error }

// serve responds with the result of a function, or with the error and its trace.
func (a *app) serve(w http.ResponseWriter, r *http.Request, answer func(r *http.Request) (any, error)) {
	if r.Method == http.MethodHead { // the mux treats it as GET, but HEAD must not change anything
		w.Header().Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	value, err := any(nil), traced(a.trouble)
	if err == nil {
		value, err = answer(r)
	}
	if err != nil {
		status := http.StatusInternalServerError
		if errors.As(err, new(badInput)) {
			status = http.StatusBadRequest
		}
		slog.Error("a request failed", "path", r.URL.Path, "error", err)
		sample.JSON(w, status, map[string]any{"error": err.Error(), "trace": traceOf(err)})
		return
	}
	sample.JSON(w, http.StatusOK, value)
}

func (a *app) migrate(r *http.Request) (any, error) {
	if err := a.users.migrate(r.Context()); err != nil {
		return nil, err
	}
	return map[string]any{"migrated": true}, nil
}

func (a *app) add(r *http.Request) (any, error) {
	text := r.PathValue("amount")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return nil, traced(badInput{fmt.Errorf("the amount is %q and has to be a number from 1 to %d, as in /users/add/3",
			text, most)})
	}
	added := makeUp(n)
	if err := a.users.add(r.Context(), added); err != nil {
		return nil, err
	}
	return map[string]any{"amount": n, "users added": added}, nil
}

func (a *app) list(r *http.Request) (any, error) {
	all, err := a.users.list(r.Context())
	if err != nil {
		return nil, err
	}
	return map[string]any{"count": len(all), "users": all}, nil
}

func (a *app) remove(r *http.Request) (any, error) {
	if err := a.users.empty(r.Context()); err != nil {
		return nil, err
	}
	all, err := a.users.list(r.Context())
	if err != nil {
		return nil, err
	}
	return map[string]any{"users": all}, nil
}
