package cli

import (
	"context"
	"fmt"
	"net/url"

	"ingot/internal/cli/client"
)

// send makes a change and waits until it is done.
func (s *session) send(ctx context.Context, method, path string, body any) error {
	reply, err := s.api.Do(ctx, client.Call{Method: method, URL: path, Body: body})
	if err != nil {
		return err
	}
	return s.api.Job(ctx, reply)
}

// done shows that an action succeeded; pairs are the names and values of its JSON.
func (s *session) done(pairs ...any) (result, error) {
	s.ok()
	out := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return s.jsonOnly(&jsonAs{nil, out}), nil
}

// create makes a resource. One that exists already is no error if the API says taken.
func (s *session) create(ctx context.Context, kind, name, path string, body map[string]any, taken string) (result, error) {
	var t client.Thing
	reply, err := s.api.Post(ctx, path, body, &t)
	if taken != "" && client.Says(err, taken) {
		s.say("%s %s already exists.", kind, name)
		s.ok()
		return &made{kind, name, "", true}, nil
	}
	if err == nil {
		err = s.api.Job(ctx, reply)
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	return &made{kind, name, t.GUID, false}, nil
}

// relateAll returns relationships to several resources, as JSON.
func relateAll(guids ...string) map[string]any {
	all := []map[string]string{}
	for _, g := range guids {
		all = append(all, map[string]string{"guid": g})
	}
	return map[string]any{"data": all}
}

// link returns the address of a component of the platform.
func (s *session) link(ctx context.Context, name, what string) (string, error) {
	root, err := s.api.Discover(ctx)
	if err != nil {
		return "", err
	}
	if at := root.Href(name); at != "" {
		return at, nil
	}
	return "", &problem{What: "This platform has no " + what + ".", Why: "the API at " + s.cfg.API + " does not advertise one"}
}

// deleteNamed deletes a resource that is identified by its name alone.
func (s *session) deleteNamed(ctx context.Context, force bool, kind, name, path string, q url.Values) (result, error) {
	if !force {
		if err := s.confirm(ctx, fmt.Sprintf("Really delete the %s %s and everything in it", kind, name)); err != nil {
			return nil, err
		}
	}
	s.say("Deleting %s %s as %s...", kind, s.out.Bold(name), s.out.Bold(s.api.User().Name()))
	t, err := named(ctx, s, kind, path, name, q, func(t client.Thing) string { return t.Name })
	if isNotFound(err) {
		s.say("%s %s does not exist.", kind, name)
		s.ok()
		return &removed{Kind: kind, Name: name}, nil
	}
	if err != nil {
		return nil, err
	}
	s.progress.Step("Deleting "+name, 0)
	if err := s.api.Delete(ctx, path+"/"+t.GUID); err != nil {
		return nil, err
	}
	s.ok()
	return &removed{Kind: kind, Name: name, Gone: true}, nil
}
