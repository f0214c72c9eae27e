package admin

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/services"
)

func (a *API) jobRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/jobs/{guid}", rest.Read, rest.Viewer(a.Server, job, presentJob))
}

// job returns a job to every caller that knows its guid, which is random, as in
// Cloud Foundry.
func job(req *rest.Request) (*platform.Job, error) {
	return rest.Lookup(req.Tx.Jobs(), req.Param("guid"), "Job")
}

type jobBody struct {
	rest.ResourceBody
	Operation string              `json:"operation"`
	State     platform.JobState   `json:"state"`
	Errors    []platform.JobError `json:"errors"`
	Warnings  []jobWarning        `json:"warnings"`
	Links     rest.Links          `json:"links"`
}

type jobWarning struct {
	Detail string `json:"detail"`
}

func presentJob(req *rest.Request, j *platform.Job) (any, error) {
	b := jobBody{
		ResourceBody: rest.PresentResource(&j.Resource), Operation: j.Operation, State: j.State,
		Errors: append([]platform.JobError{}, j.Errors...), Warnings: []jobWarning{},
		Links: rest.Links{"self": req.Link("/jobs/", rest.Escape(j.GUID))},
	}
	if j.ResourceGUID != "" {
		b.Links[j.ResourceType] = req.Link("/", j.ResourceType, "s/", rest.Escape(j.ResourceGUID))
	}
	if build := services.BuildOf(j); build != "" {
		b.Links["build"] = req.Link("/builds/", rest.Escape(build))
	}
	for _, w := range j.Warnings {
		b.Warnings = append(b.Warnings, jobWarning{w})
	}
	return b, nil
}
