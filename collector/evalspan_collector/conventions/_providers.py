"""Providers: one name for each host of models, whatever a library calls it."""

__all__ = ["NOT_PROVIDERS", "PROVIDERS"]

_ALIASES: dict[str, tuple[str, ...]] = {
    "openai": (
        "openai",
        "openai.chat",
        "openai.responses",
        "openai_agents",
    ),
    "azure.ai.openai": (
        "az.ai.openai",
        "azure",
        "azure_openai",
        "azure-openai",
    ),
    "azure.ai.inference": (
        "az.ai.inference",
        "azure_ai",
        "azure_ai_inference",
    ),
    "aws.bedrock": (
        "aws",
        "bedrock",
        "aws_bedrock",
        "amazon-bedrock",
        "AWS",
    ),
    "gcp.vertex_ai": (
        "vertex_ai",
        "vertexai",
        "google.vertex",
        "google-vertex",
        "google_vertexai",
    ),
    "gcp.gemini": (
        "gemini",
        "google-gla",
        "google.generative-ai",
        "google_genai",
        "gcp.gemini",
    ),
    "gcp.gen_ai": (
        "google",
        "gcp.gen_ai",
    ),
    "anthropic": (
        "anthropic",
        "anthropic.messages",
    ),
    "mistral_ai": (
        "mistral",
        "mistralai",
    ),
    "x_ai": (
        "xai",
        "x-ai",
        "grok",
    ),
    "cohere": ("cohere",),
    "deepseek": ("deepseek",),
    "groq": ("groq",),
    "perplexity": ("perplexity",),
    "ibm.watsonx.ai": (
        "watsonx",
        "ibm.watson.ai",
    ),
    "moonshot_ai": (
        "moonshot",
        "moonshotai",
    ),
    "together_ai": (
        "together",
        "together_ai",
    ),
    "fireworks": ("fireworks",),
    "ollama": ("ollama",),
    "huggingface": (
        "hugging_face",
        "huggingface",
    ),
    "openrouter": ("openrouter",),
}
#: Any spelling, lower case, to the canonical name.
PROVIDERS: dict[str, str] = {alias.lower(): name for name, aliases in _ALIASES.items() for alias in (name, *aliases)}

#: Names of frameworks that some libraries put where the provider belongs.
NOT_PROVIDERS = frozenset(
    {
        "strands-agents",
        "strands_agents",
        "autogen",
        "gcp.vertex.agent",
        "langchain",
        "langgraph",
        "crewai",
        "litellm",
        "llama_index",
        "haystack",
        "pydantic_ai",
        "claude_agent_sdk",
        "agent_framework",
        "microsoft.agent_framework",
        "google_adk",
        "openai_agents",
        "agno",
        "ag2",
        "smolagents",
        "_other",
        "test",
        "unknown",
    }
)
