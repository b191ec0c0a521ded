package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

func (k *walk) enterRoom(ctx context.Context) error {
	if k.room != nil {
		return nil
	}
	room, err := k.w.rooms.Create(ctx, k.task.Attachments, k.w.opt.AttachmentRoots)
	if err != nil {
		return fmt.Errorf("prepare a room: %w", err)
	}
	k.room = &room
	return nil
}

// leaveRoom ends what a guest's turn may have left and removes its room.
func (k *walk) leaveRoom(ctx context.Context) {
	if k.opened != nil && k.opened.Ephemeral {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTries)
		defer cancel()
		if !k.gone() {
			k.cleanTerminals(ctx)
			if _, err := k.gen.client.ThreadUnsubscribe(ctx, rpc.ThreadUnsubscribeParams{ThreadID: k.opened.ID}); err != nil {
				k.log.Debug("thread not unsubscribed", "thread", k.opened.ID, "error", err)
			}
		}
		if err := k.w.store.EndEphemeral(k.item.ChannelKey, k.opened.ID, time.Now()); err != nil {
			k.log.Warn("end of ephemeral thread not recorded", "thread", k.opened.ID, "error", err)
		}
	}
	if k.room != nil {
		if err := k.w.rooms.Remove(*k.room); err != nil {
			k.log.Warn("room not removed", "error", err)
		}
	}
}

func (k *walk) cleanTerminals(ctx context.Context) {
	if k.gone() {
		return
	}
	_, err := k.gen.client.ThreadBackgroundTerminalsClean(ctx, rpc.ThreadBackgroundTerminalsCleanParams{ThreadID: k.opened.ID})
	if err != nil && rpc.FaultOf(err) != rpc.FaultExperimental {
		k.log.Debug("background terminals not cleaned", "thread", k.opened.ID, "error", err)
	}
}
