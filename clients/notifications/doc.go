// Package notifications is a client of the Ingot notification service.
//
//	c, err := notifications.FromVCAP(os.Getenv("VCAP_SERVICES"), "")
//	…
//	err = c.Register(ctx, notifications.Registration{Name: "Shop", Kinds: map[string]notifications.Kind{
//		"news": {Description: "News of the shop"},
//	}})
//	…
//	accepted, err := c.Send(ctx, notifications.Send{KindID: "news", Audience: notifications.User(guid),
//		Subject: "Spring", Text: "It is spring."})
//
// A request that fails for a moment is sent again, a few times, as long as its context allows, unless that could
// have an effect twice. Sends have an idempotency key, so they are repeated safely. Errors of the service have the
// type *Error.
//
// It imports only the standard library.
package notifications
