package api

import (
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"ingot/internal/fault"
	"ingot/internal/web"
)

// Job is work that outlives the request that asked for it.
//
//	PROCESSING ──▶ COMPLETE
//	  │   ▲  └───▶ FAILED
//	  ▼   │
//	POLLING (somebody else works, and is asked from time to time)
type Job struct {
	GUID      string
	Operation string // "user.delete"
	State     JobState
	Errors    []JobError
	Warnings  []string
	Created   time.Time
	Updated   time.Time
}

// JobState says how far a job is.
type JobState string

// The states of a job.
const (
	JobProcessing JobState = "PROCESSING"
	JobPolling    JobState = "POLLING"
	JobComplete   JobState = "COMPLETE"
	JobFailed     JobState = "FAILED"
)

// JobError is why a job failed, as the API shows it.
type JobError struct {
	Code   int    `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

// finishedJob is a job for work that is done within the request: the client
// expects one and polls it every three seconds, so that being done at the
// first poll is what makes the command quick.
func (a *API) finishedJob(operation string) *Job {
	now := a.now().UTC()
	return &Job{GUID: uuid.NewString(), Operation: operation, State: JobComplete, Created: now, Updated: now}
}

// acceptJob answers with where to ask for the job.
func acceptJob(w http.ResponseWriter, r *http.Request, j *Job) {
	w.Header().Set("Location", baseURL(r)+"/v3/jobs/"+escape(j.GUID))
	w.WriteHeader(http.StatusAccepted)
}

// getJob shows a job to every reader who has its guid, which is random and
// given only to whom it concerns: the rule of Cloud Foundry.
func (a *API) getJob(w http.ResponseWriter, r *http.Request) error {
	j, err := a.store.Job(r.Context(), web.Param(r, "guid"))
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.NotFound, "Job not found")
	}
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, presentJob(r, j))
	return nil
}

type jobBody struct {
	GUID      string           `json:"guid"`
	Created   string           `json:"created_at"`
	Updated   string           `json:"updated_at"`
	Operation string           `json:"operation"`
	State     JobState         `json:"state"`
	Errors    []JobError       `json:"errors"`
	Warnings  []jobWarning     `json:"warnings"`
	Links     map[string]*link `json:"links"`
}

type jobWarning struct {
	Detail string `json:"detail"`
}

func presentJob(r *http.Request, j *Job) jobBody {
	b := jobBody{
		GUID: j.GUID, Created: timestamp(j.Created), Updated: timestamp(j.Updated), Operation: j.Operation, State: j.State,
		Errors: append([]JobError{}, j.Errors...), Warnings: []jobWarning{},
		Links: map[string]*link{"self": href(baseURL(r), "/v3/jobs/", escape(j.GUID))},
	}
	for _, w := range j.Warnings {
		b.Warnings = append(b.Warnings, jobWarning{w})
	}
	return b
}

// escape makes a guid, which clients may choose, safe as a part of a path.
func escape(guid string) string { return url.PathEscape(guid) }
