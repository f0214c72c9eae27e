package api

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
)

func (a *API) jobRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/jobs/{guid}", web.Scope(readers...), a.getJob)
}

// getJob shows a job to every caller that knows its guid, which is random, as in
// Cloud Foundry.
func (a *API) getJob(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		j, err := lookup(req.tx.Jobs(), web.Param(r, "guid"), "Job")
		if err != nil {
			return nil, err
		}
		return presentJob(req, j), nil
	})
}

type jobBody struct {
	resourceBody
	Operation string              `json:"operation"`
	State     platform.JobState   `json:"state"`
	Errors    []platform.JobError `json:"errors"`
	Warnings  []jobWarning        `json:"warnings"`
	Links     links               `json:"links"`
}

type jobWarning struct {
	Detail string `json:"detail"`
}

func presentJob(req *request, j *platform.Job) jobBody {
	b := jobBody{
		resourceBody: presentResource(&j.Resource), Operation: j.Operation, State: j.State,
		Errors: append([]platform.JobError{}, j.Errors...), Warnings: []jobWarning{},
		Links: links{"self": req.v3("/jobs/", escape(j.GUID))},
	}
	if j.ResourceGUID != "" {
		b.Links[j.ResourceType] = req.v3("/", j.ResourceType, "s/", escape(j.ResourceGUID))
	}
	for _, w := range j.Warnings {
		b.Warnings = append(b.Warnings, jobWarning{w})
	}
	return b
}
