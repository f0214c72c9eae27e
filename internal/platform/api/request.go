package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/platform"
)

// request is a request in its transaction: what handlers read, act on and present
// is of the same moment.
type request struct {
	tx     platform.Tx
	r      *http.Request
	base   string
	caller caller
}

func newRequest(tx platform.Tx, r *http.Request) *request {
	return &request{tx: tx, r: r, base: baseURL(r), caller: callerOf(r)}
}

// v3 is the link to a path below /v3.
func (req *request) v3(parts ...string) *link {
	return href(append([]string{req.base, "/v3"}, parts...)...)
}

// answer runs f in a transaction and answers with the resource it returns. f
// may run more than once, so the request's body is read before. The answer is
// made in a transaction of its own: it may take a moment, and writers wait.
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

// respond answers with a resource that is stored.
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

// show answers with what f reads.
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

// perform answers with what f did.
//
// What comes after is done between storing and answering.
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

// finish does work that clients expect to be a job, and answers with a job
// that is complete: being done at the first poll is what makes them quick.
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

// uploaded answers with a resource whose file was uploaded, and with where the
// job can be found that clients expect.
func uploaded[T, B any](a *API, w http.ResponseWriter, r *http.Request, s resource[T, B], f func(req *request) (*T, platform.Job, error)) error {
	var item *T
	var job *platform.Job
	err := a.store.Update(r.Context(), func(tx platform.Tx) error {
		stored, done, err := f(newRequest(tx, r))
		if err != nil {
			return err
		}
		item = stored
		job, err = a.platform.CreateJob(tx, done)
		return err
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", baseURL(r)+"/v3/jobs/"+escape(job.GUID))
	return respond(a, w, r, s, http.StatusAccepted, item)
}

// shortWait is how long an answer waits for its job: clients that ask for the
// job then find it done, and otherwise ask again after seconds.
const shortWait = 1500 * time.Millisecond

// accepted answers with a job, once it is done or has taken a moment.
func (a *API) accepted(w http.ResponseWriter, r *http.Request, j *platform.Job) {
	if j.State == platform.JobProcessing {
		ctx, cancel := context.WithTimeout(r.Context(), shortWait)
		defer cancel()
		a.services.Wait(ctx, j.GUID)
	}
	acceptJob(w, r, j)
}

// conclude does what may have to wait for brokers: the answer is the job that
// f returns, or one that is done.
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

// orJob is conclude for what is answered with 204 when it is done at once.
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

// warn adds a warning that clients print.
func warn(w http.ResponseWriter, text string) {
	w.Header().Add("X-Cf-Warnings", url.QueryEscape(text))
}

// warned is a response with a warning that becomes known while the request is
// carried out.
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
