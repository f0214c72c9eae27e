package services

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services/osb"
)

// work is the payload of a job. It may contain secrets: parameters.
type work struct {
	Kind  kind          `json:"kind,omitempty"`
	Phase phase         `json:"phase,omitempty"`
	Actor actions.Actor `json:"actor"`
	// Broker is its guid; the others are guids that the broker knows.
	Broker   string `json:"broker,omitempty"`
	Instance string `json:"instance,omitempty"`
	Binding  string `json:"binding,omitempty"`
	// BindingID is the broker's id of the binding, if it is not its guid; Predecessor is that
	// of the binding that it replaces, if the broker makes successors.
	BindingID   string `json:"binding_id,omitempty"`
	Predecessor string `json:"predecessor,omitempty"`
	// Rotation is the row of a rotation.
	Rotation  string `json:"rotation,omitempty"`
	ServiceID string `json:"service_id,omitempty"`
	PlanID    string `json:"plan_id,omitempty"`

	Parameters map[string]any `json:"parameters,omitempty"`
	Change     *Change        `json:"change,omitempty"`
	// Operation is the broker's name of the operation that is polled, Begun its start; for
	// a job that waits for others, Begun is when the last of them finished.
	Operation  string        `json:"operation,omitempty"`
	Begun      time.Time     `json:"begun,omitzero"`
	MaxPolling time.Duration `json:"max_polling,omitempty"`
	// Tries is the number of attempts in this phase.
	Tries int `json:"tries,omitempty"`

	// BrokerChange is a change of a broker that is stored after its catalog was read.
	BrokerChange *BrokerChange `json:"broker_change,omitempty"`
	// Children are jobs to wait for, Target the resource to delete afterwards.
	Children []Child `json:"children,omitempty"`
	Target   string  `json:"target,omitempty"`
	// Build is deployed when it is done; Launch is that deployment.
	Build  string          `json:"build,omitempty"`
	Launch *actions.Launch `json:"launch,omitempty"`
}

// Child is a job that another waits for.
type Child struct {
	Job string `json:"job"`
	// Prefix is prepended to its errors.
	Prefix string `json:"prefix,omitempty"`
}

// copied returns a copy that can be changed in a transaction, which may run again.
func (w *work) copied() work {
	next := *w
	if w.Change != nil {
		change := *w.Change
		next.Change = &change
	}
	return next
}

func (w *work) binding() bool { return w.Binding != "" }

// waits reports whether the step only looks at the store: it waits for an app's instances, a build, or
// for other jobs.
func (w *work) waits() bool {
	return w.Kind == rotation || w.Kind == deploy || w.Kind == revoke && w.Phase == ""
}

// waiters is the slot of steps that wait. It is not a guid.
const waiters = "waiting"

// pullers is the slot of steps that fetch from git servers.
const pullers = "git"

// slot returns whose limit of concurrent calls counts for the step: that of the broker that it
// calls. Those that wait have one of their own, so that they never delay calls to brokers.
func (w *work) slot() string {
	if w.waits() {
		return waiters
	}
	if w.Kind == pull {
		return pullers
	}
	return w.Broker
}

// bindingID returns the broker's id of the binding.
func (w *work) bindingID() string { return cmp.Or(w.BindingID, w.Binding) }

func encodeWork(w *work) ([]byte, error) { return json.Marshal(w) }

func decodeWork(j *platform.Job) (*work, error) {
	w := &work{}
	d := json.NewDecoder(bytes.NewReader(j.Payload))
	d.UseNumber()
	return w, d.Decode(w)
}

// insertJob stores a job.
func (s *Services) insertJob(tx platform.Tx, operation, resource, guid string, w *work,
	warnings ...string) (*platform.Job, error) {
	payload, err := encodeWork(w)
	if err != nil {
		return nil, err
	}
	j := &platform.Job{
		Operation: operation, State: platform.JobProcessing, ResourceType: resource, ResourceGUID: guid, Payload: payload,
		Due: clock.Steady(), Warnings: warnings,
	}
	return j, tx.Jobs().Insert(j)
}

// errLost means that another worker has the job, or that it has finished.
var errLost = errors.New("the job was taken over")

// claim takes a job for this worker.
func (s *Services) claim(ctx context.Context, guid string) (job *platform.Job, err error) {
	err = s.Store.Update(ctx, func(tx platform.Tx) error {
		j, err := tx.Jobs().Get(guid)
		if err != nil {
			return err
		}
		now := clock.Steady()
		if !active(j) || j.Lease.After(now) || j.Due.After(now) {
			return errLost
		}
		j.Lease, j.Worker, j.Attempt = now.Add(s.Lease), s.worker, j.Attempt+1
		job = j
		return tx.Jobs().Update(j)
	})
	return job, err
}

func active(j *platform.Job) bool {
	return j.State == platform.JobProcessing || j.State == platform.JobPolling
}

// keepLease renews the lease until ctx is done. It calls lost if that fails.
func (s *Services) keepLease(ctx context.Context, j *platform.Job, lost func()) {
	until := j.Lease
	for range background.Ticks(ctx, s.Lease/3, nil) {
		lease := clock.Steady().Add(s.Lease)
		err := s.commit(ctx, j, func(_ platform.Tx, mine *platform.Job) error {
			mine.Lease = lease
			return nil
		})
		if err == nil {
			until = lease
		}
		if errors.Is(err, errLost) || err != nil && clock.Steady().After(until) {
			lost()
			return
		}
	}
}

// commit stores the changes of f to a job, unless another worker has it.
func (s *Services) commit(ctx context.Context, j *platform.Job,
	f func(tx platform.Tx, mine *platform.Job) error) error {
	return s.Store.Update(ctx, func(tx platform.Tx) error {
		mine, err := tx.Jobs().Get(j.GUID)
		if fault.Is(err, fault.NotFound) {
			return errLost
		}
		if err != nil {
			return err
		}
		if mine.Worker != s.worker || mine.Attempt != j.Attempt || !active(mine) {
			return errLost
		}
		if err := f(tx, mine); err != nil {
			return err
		}
		return tx.Jobs().Update(mine)
	})
}

// finish sets the final state of a job.
func finish(j *platform.Job, state platform.JobState, errs ...platform.JobError) {
	j.State, j.Errors = state, errs
	j.Lease, j.Worker, j.Payload = time.Time{}, "", nil
}

// reschedule releases a job until it is due.
func reschedule(j *platform.Job, w *work, due time.Time) (err error) {
	j.Lease, j.Worker, j.Due = time.Time{}, "", due
	j.Payload, err = encodeWork(w)
	return err
}

// numbers are Cloud Foundry's numbers of broker errors; others have 10001.
var numbers = map[string]int{
	"ServiceBrokerCatalogInvalid": 270012, "MaintenanceInfoConflict": 390006,
	"AsyncServiceInstanceOperationInProgress": 60016,
}

// jobError returns an error as clients may see it.
func (s *Services) jobError(ctx context.Context, err error) platform.JobError {
	var broker *osb.Error
	var known *fault.Error
	switch {
	case errors.As(err, &broker):
		if broker.Err != nil {
			s.Log.InfoContext(ctx, "a service broker failed", "error", broker)
		}
		n := cmp.Or(numbers[broker.Title], 10001)
		return platform.JobError{Code: n, Title: "CF-" + broker.Title, Detail: broker.Message}
	case errors.As(err, &known) && known.Code != fault.Internal:
		return platform.JobError{Code: s.Number(known.Code), Title: "CF-" + string(known.Code), Detail: known.Message}
	}
	s.Log.ErrorContext(ctx, "an operation on a service failed", "error", err)
	return platform.JobError{Code: 10001, Title: "CF-UnknownError",
		Detail: "The operation failed because of a platform error; the server's log says more."}
}

func describe(err error) string {
	var broker *osb.Error
	if errors.As(err, &broker) {
		return broker.Message
	}
	var known *fault.Error
	if errors.As(err, &known) && known.Code != fault.Internal {
		return known.Message
	}
	return "The operation failed; the server's log says more."
}

// pause returns how long to wait after attempt n; it grows from first to most.
func pause(n int, first, most time.Duration) time.Duration {
	d := first
	for range n {
		if d = d * 3 / 2; d >= most {
			return most
		}
	}
	return d
}

var errUnknownJob = errors.New("no handler for this job")

func unknownJob(j *platform.Job) error { return fmt.Errorf("%s: %w", j.Operation, errUnknownJob) }
