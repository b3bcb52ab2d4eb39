from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
FCM_STYLE_DATA: FCMStyle
FCM_STYLE_NOTIFICATION: FCMStyle
FCM_STYLE_UNSPECIFIED: FCMStyle
INTERRUPTION_LEVEL_ACTIVE: InterruptionLevel
INTERRUPTION_LEVEL_CRITICAL: InterruptionLevel
INTERRUPTION_LEVEL_PASSIVE: InterruptionLevel
INTERRUPTION_LEVEL_TIME_SENSITIVE: InterruptionLevel
INTERRUPTION_LEVEL_UNSPECIFIED: InterruptionLevel
KIND_ALERT: Kind
KIND_BACKGROUND: Kind
KIND_COMPLICATION: Kind
KIND_CONTROLS: Kind
KIND_FILE_PROVIDER: Kind
KIND_LIVE_ACTIVITY: Kind
KIND_LOCATION: Kind
KIND_MDM: Kind
KIND_PUSH_TO_TALK: Kind
KIND_UNSPECIFIED: Kind
KIND_VOIP: Kind
KIND_WIDGETS: Kind
LIVE_ACTIVITY_EVENT_END: LiveActivityEvent
LIVE_ACTIVITY_EVENT_START: LiveActivityEvent
LIVE_ACTIVITY_EVENT_UNSPECIFIED: LiveActivityEvent
LIVE_ACTIVITY_EVENT_UPDATE: LiveActivityEvent
PRIORITY_HIGH: Priority
PRIORITY_LOW: Priority
PRIORITY_NORMAL: Priority
PRIORITY_UNSPECIFIED: Priority

class LiveActivity(_message.Message):
    __slots__ = ["activity_id", "attributes_json", "attributes_type", "content_state_json", "dismiss_at_ms", "event", "input_push_channel", "input_push_token", "stale_at_ms", "timestamp_ms"]
    ACTIVITY_ID_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_JSON_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_STATE_JSON_FIELD_NUMBER: _ClassVar[int]
    DISMISS_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    INPUT_PUSH_CHANNEL_FIELD_NUMBER: _ClassVar[int]
    INPUT_PUSH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STALE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    activity_id: str
    attributes_json: str
    attributes_type: str
    content_state_json: str
    dismiss_at_ms: int
    event: LiveActivityEvent
    input_push_channel: str
    input_push_token: bool
    stale_at_ms: int
    timestamp_ms: int
    def __init__(self, event: _Optional[_Union[LiveActivityEvent, str]] = ..., content_state_json: _Optional[str] = ..., attributes_type: _Optional[str] = ..., attributes_json: _Optional[str] = ..., timestamp_ms: _Optional[int] = ..., stale_at_ms: _Optional[int] = ..., dismiss_at_ms: _Optional[int] = ..., input_push_token: bool = ..., input_push_channel: _Optional[str] = ..., activity_id: _Optional[str] = ...) -> None: ...

class LocaleVariant(_message.Message):
    __slots__ = ["body", "click_action", "image", "locale", "subtitle", "title"]
    BODY_FIELD_NUMBER: _ClassVar[int]
    CLICK_ACTION_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    LOCALE_FIELD_NUMBER: _ClassVar[int]
    SUBTITLE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    body: str
    click_action: str
    image: str
    locale: str
    subtitle: str
    title: str
    def __init__(self, locale: _Optional[str] = ..., title: _Optional[str] = ..., subtitle: _Optional[str] = ..., body: _Optional[str] = ..., image: _Optional[str] = ..., click_action: _Optional[str] = ...) -> None: ...

class Notification(_message.Message):
    __slots__ = ["analytics_label", "android_json", "android_style", "apns_json", "badge_increment", "badge_set", "body", "body_loc_args", "body_loc_key", "category", "channel_id", "click_action", "collapse_key", "color", "content_available", "data", "expires_at_ms", "fcm_apns_json", "fcm_apns_style", "fcm_webpush_style", "filter_criteria", "image", "interruption_level", "kind", "launch_image", "live_activity", "mutable_content", "priority", "relevance_score", "sound", "subtitle", "subtitle_loc_args", "subtitle_loc_key", "tag", "target_content_id", "thread_id", "title", "title_loc_args", "title_loc_key", "ttl_ms", "variants", "webpush_json"]
    class DataEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ANALYTICS_LABEL_FIELD_NUMBER: _ClassVar[int]
    ANDROID_JSON_FIELD_NUMBER: _ClassVar[int]
    ANDROID_STYLE_FIELD_NUMBER: _ClassVar[int]
    APNS_JSON_FIELD_NUMBER: _ClassVar[int]
    BADGE_INCREMENT_FIELD_NUMBER: _ClassVar[int]
    BADGE_SET_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    BODY_LOC_ARGS_FIELD_NUMBER: _ClassVar[int]
    BODY_LOC_KEY_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    CLICK_ACTION_FIELD_NUMBER: _ClassVar[int]
    COLLAPSE_KEY_FIELD_NUMBER: _ClassVar[int]
    COLOR_FIELD_NUMBER: _ClassVar[int]
    CONTENT_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FCM_APNS_JSON_FIELD_NUMBER: _ClassVar[int]
    FCM_APNS_STYLE_FIELD_NUMBER: _ClassVar[int]
    FCM_WEBPUSH_STYLE_FIELD_NUMBER: _ClassVar[int]
    FILTER_CRITERIA_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_LEVEL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_IMAGE_FIELD_NUMBER: _ClassVar[int]
    LIVE_ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    MUTABLE_CONTENT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_SCORE_FIELD_NUMBER: _ClassVar[int]
    SOUND_FIELD_NUMBER: _ClassVar[int]
    SUBTITLE_FIELD_NUMBER: _ClassVar[int]
    SUBTITLE_LOC_ARGS_FIELD_NUMBER: _ClassVar[int]
    SUBTITLE_LOC_KEY_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    TARGET_CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TITLE_LOC_ARGS_FIELD_NUMBER: _ClassVar[int]
    TITLE_LOC_KEY_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    WEBPUSH_JSON_FIELD_NUMBER: _ClassVar[int]
    analytics_label: str
    android_json: str
    android_style: FCMStyle
    apns_json: str
    badge_increment: int
    badge_set: int
    body: str
    body_loc_args: _containers.RepeatedScalarFieldContainer[str]
    body_loc_key: str
    category: str
    channel_id: str
    click_action: str
    collapse_key: str
    color: str
    content_available: bool
    data: _containers.ScalarMap[str, str]
    expires_at_ms: int
    fcm_apns_json: str
    fcm_apns_style: FCMStyle
    fcm_webpush_style: FCMStyle
    filter_criteria: str
    image: str
    interruption_level: InterruptionLevel
    kind: Kind
    launch_image: str
    live_activity: LiveActivity
    mutable_content: bool
    priority: Priority
    relevance_score: float
    sound: Sound
    subtitle: str
    subtitle_loc_args: _containers.RepeatedScalarFieldContainer[str]
    subtitle_loc_key: str
    tag: str
    target_content_id: str
    thread_id: str
    title: str
    title_loc_args: _containers.RepeatedScalarFieldContainer[str]
    title_loc_key: str
    ttl_ms: int
    variants: _containers.RepeatedCompositeFieldContainer[LocaleVariant]
    webpush_json: str
    def __init__(self, kind: _Optional[_Union[Kind, str]] = ..., title: _Optional[str] = ..., subtitle: _Optional[str] = ..., body: _Optional[str] = ..., title_loc_key: _Optional[str] = ..., title_loc_args: _Optional[_Iterable[str]] = ..., subtitle_loc_key: _Optional[str] = ..., subtitle_loc_args: _Optional[_Iterable[str]] = ..., body_loc_key: _Optional[str] = ..., body_loc_args: _Optional[_Iterable[str]] = ..., launch_image: _Optional[str] = ..., image: _Optional[str] = ..., sound: _Optional[_Union[Sound, _Mapping]] = ..., badge_set: _Optional[int] = ..., badge_increment: _Optional[int] = ..., category: _Optional[str] = ..., thread_id: _Optional[str] = ..., channel_id: _Optional[str] = ..., tag: _Optional[str] = ..., click_action: _Optional[str] = ..., color: _Optional[str] = ..., data: _Optional[_Mapping[str, str]] = ..., priority: _Optional[_Union[Priority, str]] = ..., expires_at_ms: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., collapse_key: _Optional[str] = ..., content_available: bool = ..., mutable_content: bool = ..., interruption_level: _Optional[_Union[InterruptionLevel, str]] = ..., relevance_score: _Optional[float] = ..., target_content_id: _Optional[str] = ..., filter_criteria: _Optional[str] = ..., live_activity: _Optional[_Union[LiveActivity, _Mapping]] = ..., variants: _Optional[_Iterable[_Union[LocaleVariant, _Mapping]]] = ..., apns_json: _Optional[str] = ..., android_json: _Optional[str] = ..., webpush_json: _Optional[str] = ..., android_style: _Optional[_Union[FCMStyle, str]] = ..., fcm_apns_style: _Optional[_Union[FCMStyle, str]] = ..., fcm_webpush_style: _Optional[_Union[FCMStyle, str]] = ..., analytics_label: _Optional[str] = ..., fcm_apns_json: _Optional[str] = ...) -> None: ...

class Sound(_message.Message):
    __slots__ = ["critical", "name", "volume"]
    CRITICAL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    critical: bool
    name: str
    volume: float
    def __init__(self, name: _Optional[str] = ..., critical: bool = ..., volume: _Optional[float] = ...) -> None: ...

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class InterruptionLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class FCMStyle(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class LiveActivityEvent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
