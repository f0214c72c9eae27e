package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ingot/internal/platform/engine"
)

// Remove stops an instance at once and deletes its Pod.
func (e *Engine) Remove(ctx context.Context, id string) error {
	if checkID(id) != nil {
		return nil
	}
	unlock, err := e.ids.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	p, err := e.pods.find(ctx, id)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := e.removePod(ctx, p); err != nil {
		return fmt.Errorf("removing instance %s: %w", id, err)
	}
	return nil
}

// removePod deletes a Pod and waits until the watch reports that. If its agent does not
// answer and the Pod stays, its node is unreachable and cannot confirm the deletion: then
// it is deleted by force.
func (e *Engine) removePod(ctx context.Context, p *pod) error {
	e.mu.Lock()
	e.removing[p.UID] = true
	e.mu.Unlock()
	answered := e.kill(ctx, p)
	if err := e.deletePod(ctx, p, 1); err != nil {
		return err
	}
	began, forced := time.Now(), false
	return e.pods.await(ctx, p.Namespace, p.Name, func(now *pod) (bool, error) {
		switch {
		case now == nil || now.UID != p.UID:
			return true, nil
		case !forced && !answered && time.Since(began) > e.options.ForceAfter:
			forced = true
			e.log.WarnContext(ctx, "a Pod on an unreachable node is deleted by force", "pod", p.Name, "node", now.Spec.NodeName)
			return false, e.deletePod(ctx, p, 0)
		}
		return false, nil
	})
}

// kill ends the processes of a Pod through its agent, so that the deletion need not wait
// for the Pod's hook. It reports whether the Pod has ended or will.
func (e *Engine) kill(ctx context.Context, p *pod) bool {
	if !p.reachable() {
		return p.over()
	}
	c, err := e.agent(p)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	return c.Stop(ctx, true) == nil
}

// deletePod deletes this Pod, and no other of its name.
func (e *Engine) deletePod(ctx context.Context, p *pod, grace int64) error {
	err := e.pods.client.Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	if isGone(err) {
		return nil
	}
	return err
}
