package api_test

import "testing"

func TestRouteSharingScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.vars["other"] = w.space(w.vars["org"], "other")
	w.role("dev", "space_developer", w.vars["other"])
	w.vars["seen"] = w.space(w.vars["org"], "seen")
	w.role("dev", "space_auditor", w.vars["seen"])
	w.vars["there"] = w.app(w.vars["other"], "there")
	w.vars["quiet"] = w.app(w.vars["seen"], "quiet")
	w.role("neighbour", "organization_user", w.vars["org"])
	w.role("neighbour", "space_developer", w.vars["other"])
	const shared, owner = "/v3/routes/$route/relationships/shared_spaces", "/v3/routes/$route/relationships/space"
	w.play([]step{
		{as: "dev", do: "POST /v3/routes",
			body: `{"host":"shop","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 201, save: "route"},
		// The feature flag binds everybody.
		{as: "dev", do: "GET " + shared, want: 403, has: []string{"Feature Disabled: route_sharing"}},
		{do: "POST " + shared, body: `{"data":[{"guid":"$other"}]}`, want: 403,
			has: []string{"Feature Disabled: route_sharing"}},
		{do: "PATCH " + owner, body: `{"data":{"guid":"$other"}}`, want: 403},
		{do: "PATCH /v3/feature_flags/route_sharing", body: `{"enabled":true}`, want: 200},

		{as: "dev", do: "GET " + shared, want: 200, has: []string{`"data":[]`}},
		{as: "dev", do: "POST /v3/routes/$route/destinations", body: `{"destinations":[{"app":{"guid":"$there"}}]}`,
			want: 422, has: []string{"Routes destinations must be in either the route's space or the route's shared spaces"}},
		{as: "neighbour", do: "GET " + shared, want: 404, has: []string{"Route not found"}},
		{as: "dev", do: "POST " + shared, body: `{"data":[{"guid":"$space2"}]}`, want: 422,
			has: []string{"Unable to share route shop.apps.localhost with spaces ['$space2']. Ensure the spaces exist and " +
				"that you have access to them."}},
		{as: "dev", do: "POST " + shared, body: `{"data":[{"guid":"$seen"}]}`, want: 422,
			has: []string{"Unable to share route shop.apps.localhost with spaces ['$seen']. Write permission is required in " +
				"order to share a route with a space and the containing organization must not be suspended."}},
		{as: "dev", do: "POST " + shared, body: `{"data":[{"guid":"$space"}]}`, want: 422,
			has: []string{"Unable to share route 'shop.apps.localhost' with space '$space'. Routes cannot be shared into the " +
				"space where they were created."}},
		{as: "dev", do: "POST " + shared, body: `{"data":[]}`, want: 422},
		{as: "auditor", do: "POST " + shared, body: `{"data":[{"guid":"$other"}]}`, want: 403},
		{as: "dev", do: "POST " + shared, body: `{"data":[{"guid":"$other"}]}`, want: 200,
			has: []string{`"data":[{"guid":"$other"}]`, "/relationships/shared_spaces"}},
		{do: "POST " + shared, body: `{"data":[{"guid":"$other"},{"guid":"$seen"}]}`, want: 200,
			has: []string{`"data":[{"guid":"$other"},{"guid":"$seen"}]`}},

		// Apps of shared spaces can be mapped by those who may change both.
		{as: "neighbour", do: "GET /v3/routes/$route", want: 200, has: []string{"shop.apps.localhost"}},
		{as: "neighbour", do: "POST /v3/routes/$route/destinations", body: `{"destinations":[{"app":{"guid":"$there"}}]}`,
			want: 403},
		{as: "dev", do: "POST /v3/routes/$route/destinations", body: `{"destinations":[{"app":{"guid":"$quiet"}}]}`,
			want: 422, has: []string{"You don't have write permission for the space of the app"}},
		{as: "dev", do: "POST /v3/routes/$route/destinations",
			body: `{"destinations":[{"app":{"guid":"$there"}},{"app":{"guid":"$app"}}]}`, want: 200,
			has: []string{"$there", "$app"}},
		{as: "neighbour", do: "GET /v3/apps/$there/routes", want: 200, has: []string{"shop.apps.localhost"}},

		// Unsharing unmaps them.
		{as: "dev", do: "DELETE " + shared + "/$space2", want: 422,
			has: []string{"Unable to unshare route 'shop.apps.localhost' from space '$space2'. Ensure the space exists and " +
				"that you have access to it."}},
		{as: "dev", do: "DELETE " + shared + "/$seen", want: 422,
			has: []string{"You don't have write permission for the target space."}},
		{as: "dev", do: "DELETE " + shared + "/$space", want: 422,
			has: []string{"Routes cannot be removed from the space that owns them."}},
		{as: "dev", do: "DELETE " + shared + "/$other", want: 204},
		{as: "dev", do: "DELETE " + shared + "/$other", want: 422, has: []string{"The route is not shared with this space."}},
		{as: "dev", do: "GET /v3/routes/$route/destinations", want: 200, has: []string{"$app"}, not: []string{"$there"}},

		// The previous owner keeps a moved route as a shared one.
		{as: "dev", do: "PATCH " + owner, body: `{"data":null}`, want: 422},
		{as: "dev", do: "PATCH " + owner, body: `{"data":{"guid":"$none"}}`, want: 422,
			has: []string{"Unable to transfer owner of route 'shop.apps.localhost' to space '$none'. Ensure the space exists " +
				"and that you have access to it."}},
		{as: "dev", do: "PATCH " + owner, body: `{"data":{"guid":"$seen"}}`, want: 422,
			has: []string{"You don't have write permission for the target space."}},
		{as: "supporter", do: "PATCH " + owner, body: `{"data":{"guid":"$other"}}`, want: 403},
		{as: "dev", do: "PATCH " + owner, body: `{"data":{"guid":"$other"}}`, want: 200, has: []string{`"status":"ok"`}},
		{as: "dev", do: "GET /v3/routes/$route", want: 200, has: []string{`"space":{"data":{"guid":"$other"}}`, "$app"}},
		{as: "dev", do: "GET " + shared, want: 200, has: []string{`"data":[{"guid":"$seen"},{"guid":"$space"}]`}},
		{do: "GET /v3/audit_events?types=audit.route.share,audit.route.unshare,audit.route.transfer-owner", want: 200,
			has: []string{`"total_results":4`}},

		// Not into an organization that may not use its domain, nor over a quota.
		{do: "POST /v3/domains",
			body: `{"name":"private.example.org","relationships":{"organization":{"data":{"guid":"$org"}}}}`, want: 201,
			save: "private"},
		{do: "POST /v3/routes",
			body: `{"host":"in","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$private"}}}}`,
			want: 201, save: "in"},
		{do: "PATCH /v3/routes/$in/relationships/space", body: `{"data":{"guid":"$space2"}}`, want: 422,
			has: []string{"Target space does not have access to route's domain"}},
		{do: "POST /v3/space_quotas",
			body: `{"name":"none","routes":{"total_routes":1},"relationships":{"organization":{"data":{"guid":"$org"}},"spaces":{"data":[{"guid":"$other"}]}}}`, want: 201},
		{do: "PATCH /v3/routes/$in/relationships/space", body: `{"data":{"guid":"$other"}}`, want: 422,
			has: []string{"Routes quota exceeded for space 'other'."}},
		{do: "DELETE /v3/spaces/$seen", want: 202},
		{as: "dev", do: "GET " + shared, want: 200, has: []string{`"data":[{"guid":"$space"}]`}},
	})
}
