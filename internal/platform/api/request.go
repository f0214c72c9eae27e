package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"ingot/internal/base/tracing"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

// request is a request in its transaction, so that handlers read and change one
// consistent state.
type request struct {
	tx     platform.Tx
	r      *http.Request
	base   string
	caller caller
}

func newRequest(tx platform.Tx, r *http.Request) *request {
	return &request{tx: tx, r: r, base: baseURL(r), caller: callerOf(r)}
}

// v3 returns the link to a path below /v3.
func (req *request) v3(parts ...string) *link {
	return href(append([]string{req.base, "/v3"}, parts...)...)
}

// answer runs f in a transaction and responds with the resource that it returns. f
// may run more than once, so the body of the request is read before. The response is
// built in a second, read-only transaction, so that writers need not wait for it.
func answer[T, B any](a *API, w http.ResponseWriter, r *http.Request, s resource[T, B], status int, f func(req *request) (*T, error)) error {
	var item *T
	err := a.store.Update(r.Context(), func(tx platform.Tx) (err error) {
		item, err = f(newRequest(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	return respond(a, w, r, s, status, item)
}

// respond responds with a stored resource.
func respond[T, B any](a *API, w http.ResponseWriter, r *http.Request, s resource[T, B], status int, item *T) error {
	var bodies []B
	err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
		bodies, err = s.present(newRequest(tx, r), []*T{item})
		return err
	})
	if err != nil {
		return err
	}
	web.WriteJSON(w, status, bodies[0])
	return nil
}

// show responds with the result of f, which only reads.
func (a *API) show(w http.ResponseWriter, r *http.Request, f func(req *request) (any, error)) error {
	var body any
	err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
		body, err = f(newRequest(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, body)
	return nil
}

// perform runs f in a transaction and responds with its result.
func (a *API) perform(w http.ResponseWriter, r *http.Request, status int, f func(req *request) (any, error)) error {
	var body any
	err := a.store.Update(r.Context(), func(tx platform.Tx) (err error) {
		body, err = f(newRequest(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return nil
	}
	web.WriteJSON(w, status, body)
	return nil
}

// finish runs f where clients expect a job, and responds with a job that is already
// complete, so that they poll only once.
func (a *API) finish(w http.ResponseWriter, r *http.Request, operation string, f func(req *request) error) error {
	var job *platform.Job
	err := a.store.Update(r.Context(), func(tx platform.Tx) (err error) {
		if err := f(newRequest(tx, r)); err != nil {
			return err
		}
		job, err = a.platform.CreateJob(tx, platform.Job{Operation: operation, State: platform.JobComplete})
		return err
	})
	if err != nil {
		return err
	}
	acceptJob(w, r, job)
	return nil
}

// shortWait is how long a response waits for its job, because clients poll a job that
// is not complete only after seconds.
const shortWait = 1500 * time.Millisecond

// accepted responds with a job when it is complete, or after shortWait.
func (a *API) accepted(w http.ResponseWriter, r *http.Request, j *platform.Job) {
	if j.State == platform.JobProcessing {
		ctx, cancel := context.WithTimeout(r.Context(), shortWait)
		defer cancel()
		a.services.Wait(ctx, j.GUID)
	}
	acceptJob(w, r, j)
}

// conclude runs f, which may involve brokers, and responds with the job that f
// returns, or with one that is complete.
func (a *API) conclude(w http.ResponseWriter, r *http.Request, operation string, f func(req *request) (*platform.Job, error)) error {
	var job *platform.Job
	err := a.store.Update(r.Context(), func(tx platform.Tx) (err error) {
		if job, err = f(newRequest(tx, r)); err != nil || job != nil {
			return err
		}
		job, err = a.platform.CreateJob(tx, platform.Job{Operation: operation, State: platform.JobComplete})
		return err
	})
	if err != nil {
		return err
	}
	a.accepted(w, r, job)
	return nil
}

// orJob is like conclude, but responds with 204 if f returns no job.
func (a *API) orJob(w http.ResponseWriter, r *http.Request, f func(req *request) (*platform.Job, error)) error {
	var job *platform.Job
	err := a.store.Update(r.Context(), func(tx platform.Tx) (err error) {
		job, err = f(newRequest(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	if job == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	a.accepted(w, r, job)
	return nil
}

// warn adds a warning, which clients print.
func warn(w http.ResponseWriter, text string) {
	w.Header().Add("X-Cf-Warnings", url.QueryEscape(text))
}

// warned is a response to which a warning can be added while the request is handled.
type warned struct {
	http.ResponseWriter
	text *string
}

// WriteHeader implements http.ResponseWriter.
func (w warned) WriteHeader(status int) {
	if *w.text != "" && status < 300 {
		warn(w.ResponseWriter, *w.text)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w warned) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// acceptJob responds with the location of the job.
func acceptJob(w http.ResponseWriter, r *http.Request, j *platform.Job) {
	w.Header().Set("Location", baseURL(r)+"/v3/jobs/"+escape(j.GUID))
	w.WriteHeader(http.StatusAccepted)
}

// Signals notifies the parts that bring the actual state to the desired one, after a
// change was stored. Routes, names and the lines of apps' logs are not among the
// signals: the actions that write those announce them in their transaction
// (platform.Changes). Signals do not block for long and may be lost: the receivers
// also check periodically.
type Signals interface {
	// AppsChanged signals a change of apps or of their bindings; without guids, of
	// bindings only.
	AppsChanged(guids ...string)
	BuildCreated(guid string, by tracing.Origin)
	TasksChanged()
	JobCreated(guid string)
}
