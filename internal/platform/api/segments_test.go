package api_test

import (
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

func TestIsolationSegmentScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.store.Update(t.Context(), actions.New().EnsureSharedSegment); err != nil {
		t.Fatal(err)
	}
	w.vars["shared"] = platform.SharedSegmentGUID
	const org, space = "/v3/organizations/$org/relationships/default_isolation_segment",
		"/v3/spaces/$space/relationships/isolation_segment"
	w.play([]step{
		{do: "GET /v3/isolation_segments", want: 200, has: []string{`"total_results":1`, `"name":"shared"`, "$shared"}},
		{as: "orgmanager", do: "GET /v3/isolation_segments", want: 200, has: []string{`"total_results":0`}},
		{do: "POST /v3/isolation_segments", body: `{"name":"gpu","metadata":{"labels":{"a":"b"}}}`, want: 201, save: "gpu",
			has: []string{`"name":"gpu"`, `"a":"b"`, "/organizations"}},
		{do: "POST /v3/isolation_segments", body: `{"name":"GPU"}`, want: 422,
			has: []string{"Isolation Segment names are case insensitive and must be unique"}},
		{do: "POST /v3/isolation_segments", body: `{}`, want: 422, has: []string{"Name can't be blank"}},
		{do: "POST /v3/isolation_segments", body: `{"name":"a\tb"}`, want: 422,
			has: []string{"non-blank unicode characters"}},
		{as: "orgmanager", do: "POST /v3/isolation_segments", body: `{"name":"mine"}`, want: 403},
		{do: "PATCH /v3/isolation_segments/$gpu", body: `{"name":"gpus"}`, want: 200,
			has: []string{`"name":"gpus"`, `"a":"b"`}},
		{do: "PATCH /v3/isolation_segments/$gpu", body: `{"name":"gpu"}`, want: 200},
		{do: "PATCH /v3/isolation_segments/$shared", body: `{"name":"x"}`, want: 422,
			has: []string{"Cannot update the shared Isolation Segment"}},
		{do: "DELETE /v3/isolation_segments/$shared", want: 422, has: []string{"Cannot delete the shared Isolation Segment"}},
		{do: "PATCH /v3/isolation_segments/$none", body: `{"name":"x"}`, want: 404,
			has: []string{"Isolation segment not found"}},

		// Only entitled organizations see and use it.
		{as: "orgmanager", do: "GET /v3/isolation_segments/$gpu", want: 404, has: []string{"Isolation segment not found"}},
		{as: "orgmanager", do: "PATCH " + org, body: `{"data":{"guid":"$gpu"}}`, want: 422,
			has: []string{
				"Unable to assign isolation segment with guid '$gpu'. Ensure it has been entitled to the organization."}},
		{as: "orgmanager", do: "PATCH " + space, body: `{"data":{"guid":"$none"}}`, want: 422,
			has: []string{"Ensure it has been entitled to the organization that this space belongs to."}},
		{do: "POST /v3/isolation_segments/$gpu/relationships/organizations", body: `{"data":[{"guid":"$none"}]}`, want: 422,
			has: []string{
				"Unable to entitle organizations ['$none'] for the isolation segment. Ensure the organizations exist."}},
		{do: "POST /v3/isolation_segments/$gpu/relationships/organizations", body: `{"data":[]}`, want: 422,
			has: []string{"Data must be structured like this"}},
		{as: "orgmanager", do: "POST /v3/isolation_segments/$gpu/relationships/organizations",
			body: `{"data":[{"guid":"$org"}]}`, want: 403},
		{do: "POST /v3/isolation_segments/$gpu/relationships/organizations",
			body: `{"data":[{"guid":"$org"},{"guid":"$org2"}]}`, want: 200, has: []string{`{"guid":"$org"}`, `{"guid":"$org2"}`,
				"/relationships/organizations", "/v3/isolation_segments/$gpu/organizations"}},
		{do: "POST /v3/isolation_segments/$gpu/relationships/organizations", body: `{"data":[{"guid":"$org"}]}`, want: 200,
			has: []string{`{"guid":"$org"}`, `{"guid":"$org2"}`}},
		{as: "dev", do: "GET /v3/isolation_segments?organization_guids=$org&names=gpu", want: 200,
			has: []string{`"total_results":1`, "$gpu"}},
		{as: "dev", do: "GET /v3/isolation_segments/$gpu", want: 200},
		{as: "dev", do: "GET /v3/isolation_segments/$gpu/relationships/organizations", want: 200, has: []string{"$org"},
			not: []string{"$org2"}},
		{as: "dev", do: "GET /v3/isolation_segments/$gpu/organizations", want: 200, has: []string{`"total_results":1`,
			`"name":"o"`}},
		{do: "GET /v3/isolation_segments/$gpu/organizations", want: 200, has: []string{`"total_results":2`}},

		{as: "dev", do: "PATCH " + org, body: `{"data":{"guid":"$gpu"}}`, want: 403},
		{as: "orgmanager", do: "PATCH " + org, body: `{}`, want: 422, has: []string{"Data must be structured like this"}},
		{as: "orgmanager", do: "PATCH " + org, body: `{"data":{"guid":"$gpu"}}`, want: 200,
			has: []string{`"data":{"guid":"$gpu"}`, "/v3/isolation_segments/$gpu"}},
		{as: "dev", do: "GET " + org, want: 200, has: []string{`"data":{"guid":"$gpu"}`}},
		{as: "dev", do: "GET /v3/processes/$app/stats", want: 200, has: []string{`"isolation_segment":"gpu"`}},
		{do: "DELETE /v3/isolation_segments/$gpu/relationships/organizations/$org", want: 422,
			has: []string{"Cannot remove the entitlement while this Isolation Segment is assigned as the Default Isolation " +
				"Segment for the Organization."}},
		{as: "manager", do: "PATCH " + space, body: `{"data":{"guid":"$gpu"}}`, want: 403},
		{as: "orgmanager", do: "PATCH " + space, body: `{"data":{"guid":"$gpu"}}`, want: 200,
			has: []string{`"data":{"guid":"$gpu"}`}},
		{as: "dev", do: "GET /v3/isolation_segments/$gpu/relationships/spaces", want: 200,
			has: []string{`"data":[{"guid":"$space"}]`}},
		{as: "orgmanager", do: "PATCH " + org, body: `{"data":null}`, want: 200, has: []string{`"data":null`}},
		// A null guid is the same as null.
		{as: "orgmanager", do: "PATCH " + org, body: `{"data":{"guid":"$gpu"}}`, want: 200},
		{as: "orgmanager", do: "PATCH " + org, body: `{"data":{"guid":""}}`, want: 422,
			has: []string{"Data must be structured like this"}},
		{as: "orgmanager", do: "PATCH " + org, body: `{"data":{}}`, want: 422,
			has: []string{"Data must be structured like this"}},
		{as: "orgmanager", do: "PATCH " + org, body: `{"data":{"guid":null}}`, want: 200, has: []string{`"data":null`}},
		{do: "DELETE /v3/isolation_segments/$gpu/relationships/organizations/$org", want: 422,
			has: []string{"Cannot remove the entitlement while this Isolation Segment is assigned to any Spaces. Currently " +
				"assigned to: ['s']"}},
		{do: "DELETE /v3/isolation_segments/$gpu", want: 400,
			has: []string{"Please delete the Organization associations for your Isolation Segment.", "CF-AssociationNotEmpty"}},

		// A space may use the shared one although its organization has another default.
		{do: "POST /v3/isolation_segments/$shared/relationships/organizations",
			body: `{"data":[{"guid":"$org"}]}`, want: 200},
		{as: "orgmanager", do: "PATCH " + org, body: `{"data":{"guid":"$gpu"}}`, want: 200},
		{as: "orgmanager", do: "PATCH " + space, body: `{"data":{"guid":"$shared"}}`, want: 200},
		{as: "dev", do: "GET /v3/processes/$app/stats", want: 200, has: []string{`"isolation_segment":null`}},
		{as: "orgmanager", do: "PATCH " + space, body: `{"data":{"guid":null}}`, want: 200, has: []string{`"data":null`}},
		{as: "orgmanager", do: "PATCH " + space, body: `{"data":{"guid":"$shared"}}`, want: 200},
		{as: "orgmanager", do: "PATCH " + space, body: `{"data":null}`, want: 200, has: []string{`"data":null`}},
		{as: "orgmanager", do: "PATCH " + org, body: `{"data":null}`, want: 200},
		{do: "DELETE /v3/isolation_segments/$gpu/relationships/organizations/$org", want: 204},
		{do: "DELETE /v3/isolation_segments/$gpu/relationships/organizations/$org", want: 422,
			has: []string{"Organization 'o' is not entitled to isolation segment 'gpu'."}},
		{do: "DELETE /v3/organizations/$org2", want: 202},
		{do: "DELETE /v3/isolation_segments/$gpu", want: 204},
		{do: "GET /v3/isolation_segments/$gpu", want: 404},
	})
}
