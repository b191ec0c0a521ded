package task

// vocabulary is the closed set of keys that are metadata; every other
// `key: value` line is text. It is a map that nobody writes to.
//
// The first group is the gateways' own list. The second was seen in newer
// writers. The third is written by gateways outside their vocabulary, so
// that their own full scan leaves those lines in the body; here they are
// metadata all the same, because their values are room members' names and
// event notes, and an owner's turn must not read those as the owner's words.
var vocabulary = map[string]bool{
	"id": true, "timestamp": true, "session_scope": true, "task": true, "source": true,
	"access_tier": true, "user_id": true, "channel_id": true, "priority": true,
	"interaction_type": true, "source_message_id": true, "channel_name": true,
	"guild_name": true, "attempts": true, "sender_name": true, "room_name": true,
	"parent_message_id": true, "reply_chain_ids": true, "reminder": true,
	"author_name": true, "author_id": true, "chat_id": true, "thread_ts": true,
	"reply_to_event": true, "reply_to_me": true, "reply_to_sender": true,
	"addressed_to": true, "callSid": true, "caller": true, "thread_root": true,
	"source_room_id": true, "receiving_instance": true, "from": true, "call_sid": true,
	"hint": true, "instructions": true, "transcript": true, "schedule_name": true,
	"schedule_slot": true, "content_modalities": true, "media_form": true,
	"attachments": true, "platform_card": true, "instance_id": true,
	"collaborator": true, "requested_worker": true,

	"task_layout": true, "channel_kind": true, "wire_source": true,
	"picker_command": true, "picker_args": true, "target_worker": true,
	"fan_out": true, "origin": true, "hitl_click": true,

	"envelope_hmac": true, "sensitive_data_filter": true, "room_members": true,
	"room_member_count": true, "dedup_requeue_count": true, "model_hint": true,
	"provenance": true,
}

// interactions is the closed set of interaction types; unknown ones are messages.
var interactions = map[string]bool{
	"message": true, "realtime_audio": true, "realtime_video": true,
	"tool_initiated": true, "system_event": true, "self_reflective": true,
}
